# Claims get the retained blocks of their former ones while answers of etcd come late, and go meanwhile. They have no record yet, and those of the former ones stay.
profile chaos
seed 8
a0 +1s create a-c0 keep length=32 & create a-c1 keep length=32 & create a-c2 keep length=32 & create a-c3 keep length=32
a0 +5s delete a-c0 & delete a-c1 & delete a-c2 & delete a-c3
a0 +5s create a-c0 keep length=32 reuse & create a-c1 keep length=32 reuse & create a-c2 keep length=32 reuse & create a-c3 keep length=32 reuse
a0 +0s +150ms delete a-c0 & +150ms delete a-c1 & +150ms delete a-c2 & +150ms delete a-c3
b0 +1s create b-c0 keep length=32 & create b-c1 keep length=32 & create b-c2 keep length=32 & create b-c3 keep length=32
b0 +5s delete b-c0 & delete b-c1 & delete b-c2 & delete b-c3
b0 +5s create b-c0 keep length=32 reuse & create b-c1 keep length=32 reuse & create b-c2 keep length=32 reuse & create b-c3 keep length=32 reuse
b0 +0s +150ms delete b-c0 & +150ms delete b-c1 & +150ms delete b-c2 & +150ms delete b-c3
c0 +1s create c-c0 keep length=32 & create c-c1 keep length=32 & create c-c2 keep length=32 & create c-c3 keep length=32
c0 +5s delete c-c0 & delete c-c1 & delete c-c2 & delete c-c3
c0 +5s create c-c0 keep length=32 reuse & create c-c1 keep length=32 reuse & create c-c2 keep length=32 reuse & create c-c3 keep length=32 reuse
c0 +0s +150ms delete c-c0 & +150ms delete c-c1 & +150ms delete c-c2 & +150ms delete c-c3
fault +9s weather etcd-late
fault +20s weather fair
