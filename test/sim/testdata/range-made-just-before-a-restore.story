# CREATEs are answered with new ranges, and before their IPPools have a status the ledger is restored from a copy of the time before.
# The claims show their ranges all the time, and hold them again.
profile recovery
seed 1
fault +3s copy-etcd
a0 +6s create a-r0 room range network=n0 cell=x0
b0 +6s create b-r0 vnet range network=n0
c0 +6s create c-r0 snet range network=n1
fault +3.04s restore-etcd
