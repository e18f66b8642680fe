# CREATEs are answered with addresses of new networks, own, shared and of two levels, and before the IPPools of these have a status the
# ledger is restored from a copy of the time before. Nobody else gets the addresses. Of a-c1 the IPPool of the upper level was not made yet.
profile recovery
seed 1
fault +3s copy-etcd
a0 +5970ms create a-c0 socket network=n0 cell=x0
a1 +6020ms create a-c1 socket network=n1 cell=x0
b0 +6s create b-c0 end network=n0
c0 +6s create c-c0 send network=n0
c0 +0s create c-c1 cell network=n0 cell=x0
fault +3.05s restore-etcd
