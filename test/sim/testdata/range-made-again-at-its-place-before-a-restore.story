# A range is deleted, and a claim of the same name gets the range of another scope, at the same addresses. Then the ledger is restored from a
# copy that has the former one. Its hold ends, as the claim that has the name now names another pool, and the later range comes in.
profile recovery
seed 1
b0 +1s create b-r0 vsub range network=n0 cell=x1
b0 +5s delete b-r0
b0 +4s create b-r0 vsub range network=n0 cell=x0
fault +3s copy-etcd
fault +12s restore-etcd
