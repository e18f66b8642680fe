# A range is deleted after the ledger was copied, and another claim makes it again. When the copy is restored, that claim has the range, not the one that is gone.
profile recovery
seed 1
a1 +1s create a-r1 scnet range network=n1 cell=x0
fault +3s copy-etcd
a1 +4s delete a-r1
c0 +7s create c-r0 scnet range network=n1 cell=x1
fault +6s restore-etcd
