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
