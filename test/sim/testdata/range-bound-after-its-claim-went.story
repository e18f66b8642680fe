# A claim is deleted while its first pass binds the range: what that pass has bound is released by the deletion that was seen, and
# not only by the sweep. So the next claim of the range is answered.
profile networks
seed 2
b0 +300ms create b-race0 snet range network=x0
b0 +0s delete b-race0 & +1426µs b1: create b-race0 scnet range network=y0 & +9750µs b1: delete b-race0
b0 +500ms c0: create c-race0 scnet range network=y0
b0 +0s delete b-race0
b0 +1s c0: delete c-race0
b0 +300ms create b-race1 snet range network=x1
b0 +0s delete b-race1 & +6415µs b1: create b-race1 scnet range network=y1 & +15844µs b1: delete b-race1
b0 +500ms c0: create c-race1 scnet range network=y1
b0 +0s delete b-race1
b0 +1s c0: delete c-race1
b0 +300ms create b-race2 snet range network=x2
b0 +0s delete b-race2 & +5548µs b1: create b-race2 scnet range network=y2 & +11060µs b1: delete b-race2
b0 +3200ms c0: create c-race2 scnet range network=y2
b0 +0s delete b-race2
b0 +1s c0: delete c-race2
b0 +300ms create b-race3 snet range network=x3
b0 +0s delete b-race3 & +3976µs b1: create b-race3 scnet range network=y3 & +13970µs b1: delete b-race3
b0 +500ms c0: create c-race3 scnet range network=y3
b0 +0s delete b-race3
b0 +1s c0: delete c-race3
b0 +300ms create b-race4 snet range network=x4
b0 +0s delete b-race4 & +3094µs b1: create b-race4 scnet range network=y4 & +12528µs b1: delete b-race4
b0 +3200ms c0: create c-race4 scnet range network=y4
b0 +0s delete b-race4
b0 +1s c0: delete c-race4
b0 +300ms create b-race5 snet range network=x5
b0 +0s delete b-race5 & +6947µs b1: create b-race5 scnet range network=y5 & +15583µs b1: delete b-race5
b0 +3200ms c0: create c-race5 scnet range network=y5
b0 +0s delete b-race5
b0 +1s c0: delete c-race5
b0 +300ms create b-race6 snet range network=x6
b0 +0s delete b-race6 & +8840µs b1: create b-race6 scnet range network=y6 & +12047µs b1: delete b-race6
b0 +3200ms c0: create c-race6 scnet range network=y6
b0 +0s delete b-race6
b0 +1s c0: delete c-race6
b0 +300ms create b-race7 snet range network=x7
b0 +0s delete b-race7 & +7788µs b1: create b-race7 scnet range network=y7 & +13112µs b1: delete b-race7
b0 +1000ms c0: create c-race7 scnet range network=y7
b0 +0s delete b-race7
b0 +1s c0: delete c-race7
b0 +300ms create b-race8 snet range network=x8
b0 +0s delete b-race8 & +1088µs b1: create b-race8 scnet range network=y8 & +9224µs b1: delete b-race8
b0 +1000ms c0: create c-race8 scnet range network=y8
b0 +0s delete b-race8
b0 +1s c0: delete c-race8
b0 +300ms create b-race9 snet range network=x9
b0 +0s delete b-race9 & +8116µs b1: create b-race9 scnet range network=y9 & +11608µs b1: delete b-race9
b0 +1000ms c0: create c-race9 scnet range network=y9
b0 +0s delete b-race9
b0 +1s c0: delete c-race9
b0 +300ms create b-race10 snet range network=x10
b0 +0s delete b-race10 & +7440µs b1: create b-race10 scnet range network=y10 & +13306µs b1: delete b-race10
b0 +500ms c0: create c-race10 scnet range network=y10
b0 +0s delete b-race10
b0 +1s c0: delete c-race10
b0 +300ms create b-race11 snet range network=x11
b0 +0s delete b-race11 & +3407µs b1: create b-race11 scnet range network=y11 & +10934µs b1: delete b-race11
b0 +500ms c0: create c-race11 scnet range network=y11
b0 +0s delete b-race11
b0 +1s c0: delete c-race11
