# A kcp is restored that does not know a claim. Its block stays, and counts for the limit of the workspace, until the revision of the
# server is that of the claim: another claim waits until then.
profile restore
seed 1
fault +1s copy-kcp
fault +9s restore-kcp old
b0 +1s create b-c0 flat length=32
b0 +100ms delete b-c0
b0 +200ms create b-c1 flat length=32
b0 +100ms delete b-c1
b0 +200ms create b-c2 flat length=32
b0 +100ms delete b-c2
b0 +200ms create b-c3 flat length=32
b0 +100ms delete b-c3
b0 +200ms create b-c4 flat length=32
b0 +100ms delete b-c4
b0 +200ms create b-c5 flat length=32
b0 +100ms delete b-c5
b0 +200ms create b-c6 flat length=32
b0 +100ms delete b-c6
b0 +200ms create b-c7 flat length=32
b0 +100ms delete b-c7
b0 +200ms create b-c8 flat length=32
b0 +100ms delete b-c8
b0 +200ms create b-c0 flat length=32
b0 +100ms delete b-c0
b0 +200ms create b-c1 flat length=32
b0 +100ms delete b-c1
b0 +200ms create b-c2 flat length=32
b0 +100ms delete b-c2
b0 +200ms create b-c3 flat length=32
b0 +100ms delete b-c3
b0 +200ms create b-c4 flat length=32
b0 +100ms delete b-c4
b0 +200ms create b-c5 flat length=32
b0 +100ms delete b-c5
a0 +7s create a-f0 few length=32 wait
a0 +6s create a-f1 few length=32 wait
a0 +100ms create a-f2 few length=32 wait
