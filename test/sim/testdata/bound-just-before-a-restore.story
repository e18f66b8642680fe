# Two claims are bound, and before the status of their pool is written the ledger is restored from a copy of the time before. The claims behind them get other addresses.
profile recovery
seed 1
fault +3s copy-etcd
b0 +6s create b-f0 few length=32 wait & create b-f1 few length=32 wait & create b-f2 few length=32 wait & create b-f3 few length=32 wait
fault +3.08s restore-etcd
