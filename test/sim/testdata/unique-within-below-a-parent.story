# A class with a parent and uniqueWithin serves each cell of a network its own addresses, also when ranges come and go.
profile calm
seed 1

a0  +0s create a-c0 cell network=n0 cell=x0 & create a-c1 cell network=n0 cell=x1
b0  +0s create b-c0 scell network=n0 cell=x0
b0  +1s create b-r0 scnet range network=n0
b0  +1s delete b-c0
b0  +5s delete b-r0
c0  +2s create c-c0 scell network=n0 cell=x1
