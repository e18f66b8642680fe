# Twelve claims are bound, and kcp is restored from a copy of the time before. A reconcile whose cache still shows the claims publishes them after that. Their records are no proof that this kcp knew them: no more than ten blocks are freed.
profile restore
seed 1
fault +2s a0: create a-r0 snet range network=n0
fault +1s copy-kcp
fault +1s b0: create b-c0 send network=n0 & b0: create b-c1 send network=n0 & b0: create b-c2 send network=n0 & b0: create b-c3 send network=n0 & b0: create b-c4 send network=n0 & b0: create b-c5 send network=n0 & b0: create b-c6 send network=n0 & b0: create b-c7 send network=n0 & b0: create b-c8 send network=n0 & b0: create b-c9 send network=n0 & b0: create b-c10 send network=n0 & b0: create b-c11 send network=n0
fault +1ms restore-kcp raised
fault +20s a0: delete a-r0
