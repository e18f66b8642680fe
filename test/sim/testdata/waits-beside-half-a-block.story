# A /31 of a full pool goes, and one of its two addresses is given to an older claim. Another /31 waits on beside the other address, as the
# pool has no block of that size; a /32 that comes then is bound.
profile waiting
seed 1
a0 +1s create a-c0 flat length=30
a0 +0s create a-c1 flat length=31
a0 +0s create a-c2 flat length=31
b0 +3s create b-c0 flat address=10.0.0.7 wait
b0 +2s create b-c1 flat length=31 wait
a0 +8s delete a-c2
