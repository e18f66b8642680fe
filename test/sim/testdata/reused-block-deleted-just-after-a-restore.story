# A claim that has reused a block is deleted after the ledger was restored from a copy of the time before, and before recovery. The block is retained.
profile recovery
seed 1
c0 +1s create c-c1 keep length=32
fault +3s copy-etcd
c0 +3s delete c-c1
c0 +1s create c-c1 keep length=32 reuse
fault +6s restore-etcd
c0 +5.1s delete c-c1
