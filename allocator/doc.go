// Package allocator hands out blocks of address space and records them in etcd.
// It knows prefixes and etcd, and nothing of Kubernetes.
//
// # Model
//
// A pool is a CIDR to hand out from. A block is a prefix of a pool that was
// given to a holder, whose ClaimID is the key of all that is done: a claim has
// one block at most, and whoever asks again for the same claim gets the same
// block. Blocks live in spaces. A space is the unit in which no two blocks
// overlap, and the unit of contention; a pool has a space of its own unless it
// joins others of its address domain in one. A child pool is a block of its
// parent, held by the child's own ID, with a space of its own.
//
// The ledger, in etcd, is the truth. Memory holds only the free space of each
// pool (package index), as of a known revision of the space; one watch keeps it
// current. What is decided in memory is real when a transaction has confirmed
// that the space was still at that revision. Refusals are confirmed in the same
// way, so they are as true as blocks.
//
// Requests for a space queue up while a transaction is in flight and then share
// the next one (internal/engine). Whoever finds nothing free may wait for
// room, and is served in the order of age (internal/space).
//
// A block can be reserved for a claim that is being created, and given to it once it is
// there (reserve.go). Any Allocator may reserve. One of them, the leader, has the waiting
// lists, and marks the spaces in which claims wait for the others (internal/engine/lead.go).
//
// A block that outlives its claim is retained (retain.go), for a time if it has a lease. The
// caller releases it then, and DueLeases names what is due (leases.go). A later claim of the
// same name may get the block back, in one transaction.
//
// A request may come with limits on what its workspace holds of the pool, and by the
// class, of whatever pools (internal/space/account.go). What is held are sums in memory, of the
// blocks that each space notes (internal/space/usage.go). The head of the space fences the first. For the
// second there is a fence of its own, for each class and workspace, which every bind
// under a limit compares and puts; once it exists, binds without a limit put it, too.
// A limit applies to the requests that come with it. What the workspace holds already counts,
// and nothing of that is taken away.
//
// A block that is freed may have to cool (Options.Cooldown): it stays in the ledger, with
// the key of its claim, and is nobody's. A bind by an object of its former holder's name
// takes it over (former.go). When its time is over, block and key go (internal/engine/cooldown.go).
//
// # Rooms
//
// This package is the face: what callers ask for, and a file for each operation that says what
// it asks of a transaction (Plan) and what follows from the answer (Won, Lost). Below it:
//
//	ledger           the words: pools, blocks, requests, refusals
//	internal/engine  a worker for each space, which commits operations in groups; the watch
//	internal/space   what is known in memory: free space, owners, limits, cooling blocks, waiters
//	internal/store   etcd: keys, values, transactions, pages, snapshot
//
// # Keys
//
// Below Options.Prefix, /ipam/v1 by default:
//
//	ledger                         the ledger's ID, made once at random
//	spaces/<space>/head            put by every change to the space; carries a counter
//	spaces/<space>/blocks/<prefix> a block
//	spaces/<space>/waiters         put while claims wait for room, by the writer that has their list
//	claims/<claim>                 where the claim's block is
//	claims/reserved.<cluster>.<sum> the same of a reservation
//	pools/<pool>                   a pool
//	workspaces/<cluster>/roots     put when a root pool of the workspace comes or goes
//	quotas/<class>/<cluster>       put by every bind by a class that has had a limit there
//	turns/<space>                  put by a writer that keeps losing to others, to be let go first
//	slices/<pool>/head             put when a record of the pool's slices changes; counts those given
//	slices/<pool>/members/<cluster> what a workspace has of them
//	history/<prefix>/<space>/<revision> who had a block; put by what frees it, at that revision of the block
//
// IDs contain no slash. A prefix is written in full, 010.000.000.000-08 or
// 2001:0db8:0000:0000:0000:0000:0000:0000-032, so that keys sort by address, a
// covering prefix before those inside it, and there is one way to write each.
//
// # Values
//
// Compact JSON that begins with its version, "v":1. A value of a version that
// this program does not know is a *VersionError that names the key, and one that
// is no such value a *DamageError; nothing is guessed, and nothing of that space
// is changed until the key can be read or is gone. All other spaces go on.
//
//	ledger  {"v":1,"id":"…"}
//	head    {"v":1,"n":17}
//	roots   {"v":1}, as quotas
//	turn    {"v":1,"w":"…","took":1500000}
//	claim   {"v":1,"space":"…","prefix":"10.0.0.0/26"}
//	pool    {"v":1,"space":"…","cidr":"10.0.0.0/8","excluded":["…"],"parent":"…","state":"open|draining","cluster":"…","name":"…"}
//	        version 2 with "frozen":true, which is absent otherwise
//	        "until":"…" of a child that drains: what cooled in it would have been free then
//	waiters {"v":1,"w":"…"}
//	block   {"v":1,"pool":"…","claim":"…","cluster":"…","ns":"…","name":"…","class":"…","policy":"Delete|Retain","state":"bound|retained","slice":true,"at":"2026-01-02T03:04:05.678Z"}
//	        version 3 with "until":"…", when that state ends by itself: a retained block is released then
//	        version 2 with "state":"reserved", and "shared":true if several requests were answered with it
//	        version 3 with "until":"…", when the state ends: "state":"cooling"
//
//	        "since":"…" if the holder began to have it before "at", and of a cooling block when it was freed
//	        "adopted":true if it was taken from a published record
//	history {"v":1,"pool":"…","claim":"…","cluster":"…","ns":"…","name":"…","class":"…","slice":true,"adopted":true,"disputed":true,"from":"…","until":"…","cools":"…","cause":"Released"}
//
//	slices  {"v":1,"given":17}
//	slice   {"v":1,"binding":"…","child":"…","state":"waiting|given|declined","since":"…"}
//
// A disputed block has "disputed":true beside its state, and, if others hold the
// very same prefix, "rivals":[{…}], each as the block itself. The claims of all of
// them lead to the one key.
//
// # Invariants
//
//	I1  No two blocks of a space overlap, but for disputed ones (see Adopt).
//	I2  A block exists if and only if its claim's key does.
//	I3  A claim has one block at most, one that cools included.
//	I4  What was published for a claim is its block in the ledger. (The callers' part.)
//	I5  Nothing is freed without a live confirmation. (The callers' part.)
//
// I1 holds because every transaction on a space compares and puts its head: what
// was free at that revision is free when the transaction commits. I2 and I3 hold
// because block and claim are written together, the claim only where there is
// none. A pool is gone only when it was empty at the head that the transaction
// compared, and no bind makes a head, so no block is in a pool that is gone.
//
// # Crashes
//
// What a stop of the process at each point leaves behind, and what repairs it:
//
//	before the transaction is sent       nothing; the caller asks again
//	after it is sent, before it commits  all of it or nothing; Bind and Release of the same claim find out
//	after it commits, before the answer  all of it; Bind returns the block, Release finds none
//	while a prefix is held for a waiting claim  nothing: holds are in memory; the claim asks again
//	after the last block of a draining pool is freed  an empty draining pool, retired at the next Open
//	while blocks cool                    nothing: their ends are in the ledger
//	while a pool whose blocks cool is retired  a draining pool with fewer of them, or none; retired by the next try
//	while the ledger is first opened     an ID without pools, or nothing
//
// A transaction whose answer is lost while the process lives on may still be on
// its way, and reading does not settle that. So the head is put once more: the
// comparison of the lost transaction can then no longer succeed, and what is
// read afterwards is final.
package allocator
