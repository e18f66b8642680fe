# A claim changes its reclaim policy, and the ledger is restored from a copy that has the former one. The block follows its record again.
profile recovery
seed 1
c1 +1s create c-c0 flat length=32
fault +3s copy-etcd
c1 +4s reclaim c-c0 Retain
fault +6s restore-etcd
