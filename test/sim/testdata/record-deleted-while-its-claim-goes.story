# The record of a claim is deleted a moment after the claim: the DELETE of the record is asked about while the claim goes, and deletes what that has just left.
profile calm
seed 1
a0 +1s create a-c0 keep length=32 & create a-c1 keep length=32 & create a-c2 keep length=32 & create a-c3 keep length=32
a0 +5s delete a-c0 & delete-record a-c0 & delete a-c1 & +300µs delete-record a-c1 & delete a-c2 & +600µs delete-record a-c2 & delete a-c3 & +1ms delete-record a-c3
