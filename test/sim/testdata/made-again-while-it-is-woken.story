# A claim that is made again is not behind the former one of its name, which was woken and has gone.
# It waited for that for ever, asked 20 times a second, and kept claims between them waiting.
profile waiting
seed 3

b0 +0s create b-c0 flat length=29
b0 +1s create b-c1 flat length=32 wait & create b-c2 flat length=32 wait & create b-c3 flat length=32 wait & create b-c4 flat length=32 wait
b0 +0s create b-c5 flat length=32 wait & create b-c6 flat length=32 wait & create b-c7 flat length=32 wait & create b-c8 flat length=32 wait
a0 +4s create a-c1 flat length=32 wait & create a-c2 flat length=32 wait & create a-c3 flat length=32 wait & create a-c4 flat length=32 wait
a0 +3s platform: exclude flat 10.0.0.7/32 & +1ms delete a-c1 & +1ms delete a-c2 & +1ms delete a-c3 & +1ms delete a-c4 & +1ms create a-c1 keep length=32 & +1.5ms create a-c2 keep length=32 & +2ms create a-c3 keep length=32 & +1.2ms create a-c4 keep length=32
