# A pool serves another class while an address of it cools. Nobody else gets the address before its time.
profile calm
seed 1

a0  +0s platform: serve mixed mflat
a0  +3s create a-c0 mflat
a0  +1s delete a-c0
a0  +1s platform: serve mixed mvrf
a0  +1s create a-c1 mvrf network=n0
b0  +6s create b-c1 mvrf network=n0
