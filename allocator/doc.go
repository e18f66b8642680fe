// Package allocator allocates blocks of address space, and records them in etcd.
// It knows prefixes and etcd, and nothing of Kubernetes.
//
// # Model
//
// A pool is a CIDR from which blocks are allocated. A block is a prefix of a pool that was given to a holder. The
// holder's ClaimID is the key of every operation: a claim has one block at most, and a repeated request gets the same
// block. Blocks live in spaces. A space is the unit in which no two blocks overlap. A pool has its own space, unless it
// shares one with the other pools of its address domain. A child pool is a block of its parent. The holder of that
// block has the child's own ID. The child has its own space.
//
// The system makes pools, too (derived.go, spaces.go). A derived pool is a child whose ID is a digest of the class and
// the scope that it is for, so that all callers that need it make the same one. A claim may hold it. An address space
// of a pool has the same CIDR as the pool, in a space of its own, for one scope. Binds and releases treat both as
// pools. In all else, an address space follows its pool.
//
// The ledger, in etcd, is the truth, and one process writes it: the one that has taken its office
// (internal/engine/office.go). Memory has the free space of each pool (package index). The process reads the ledger
// once, when it takes the office. Afterwards, only its own commits change memory. A decision that is made in memory
// becomes real when a transaction has confirmed that the ledger is as this process has left it. Refusals are confirmed
// in the same way, so they are as certain as blocks.
//
// While a transaction is in flight, further requests wait in a queue, whichever spaces they are on, and
// then share the next transaction (internal/engine). A claim that finds no room may
// wait for it. Workspaces are served in turn, and the oldest claim of each is first
// (internal/space).
//
// A claim that is being created has no UID yet: its block is bound under an allocation ID, which is made for that
// CREATE and which the claim then shows (ledger.IsAllocationID). If the CREATE fails, the block becomes what it was
// before. A block passes from one ID to another of the same name in one transaction (Retained.HandOver).
//
// A block that outlives its claim is retained (retain.go), and may have a lease. When the lease is over, Retained.Due
// names the holder (retained.go), and the caller releases the block. A later claim of the same name may get the block
// back by HandOver.
//
// A request may have limits on how many addresses its workspace holds of the pool, and, by the class, of any pool
// (internal/space/limits.go). Each space adds up in memory how many addresses workspaces hold
// (internal/space/usage.go). A bind is planned on these sums, and on the addresses that the binds before it in the
// transaction take. A limit applies to the requests that come with it. The blocks that the workspace holds already
// count, and are not taken away.
//
// A block that is freed may have to cool (Options.Cooldown). It stays in the ledger, with the
// key of its claim, and has no holder. A bind by an object of the former holder's name gets it
// back (former.go). When the cooldown is over, block and key are deleted
// (internal/engine/cooldown.go).
//
// # The face
//
// An Allocator binds and releases blocks, looks them up and lists them. The rest is in views of it, which have a noun
// each: Pools, Waits, Retained, Derived, Slices and Recovery. The words are those of package ledger
// alone.
//
// # Packages
//
// This package is the face: it has the operations that callers ask for, a file for each, with the plan of the
// operation's transaction. Below it:
//
//	ledger           the words: pools, blocks, requests, refusals
//	internal/engine  the writer, which commits the operations on all spaces in groups
//	internal/space   memory: free space, owners, limits, cooling blocks, waiters
//	internal/store   etcd: keys, values, transactions, pages, snapshot
//
// # Keys
//
// Below Options.Prefix, /ipam/v1 by default:
//
//	ledger                         the ledger's ID, made at random: once, and after each restore
//	head                           the process that has the office of the writer; each of its transactions
//	                               compares it, and each that writes puts it
//	origin                         where the holders are, as the first caller of Origin said
//	spaces/<space>/head            counts the changes to the space; put by each
//	spaces/<space>/blocks/<prefix> a block
//	claims/<claim>                 where the claim's block is
//	pools/<pool>                   a pool
//	slices/<pool>/head             put when a record of the pool's slices changes; counts those given
//	slices/<pool>/members/<cluster> the record of a workspace
//	history/<bucket>/<space>/<head>.000 tenures that a transaction has ended, of blocks in a prefix; with the
//	                               revision of the space's head that it replaces, in hex
//
// IDs contain no slash. A prefix is written in full, 010.000.000.000-08 or
// 2001:0db8:0000:0000:0000:0000:0000:0000-032, so that keys sort by address, a
// covering prefix before those inside it, and there is one way to write each.
//
// # Values
//
// Compact JSON that begins with its version, "v":1. A value of a version that this program does not know gives a
// *VersionError, and any other value that cannot be read gives a *DamageError. Both name the key. Nothing is guessed,
// and nothing of that space is changed until the key can be read or is gone, and the ledger was opened again. All other
// spaces go on. All values have version 1.
//
//	ledger  {"v":1,"id":"…"}
//	origin  {"v":1,"origin":"…"}
//	head    {"v":1,"n":6,"by":"…","at":"10.0.0.7:9443","c":17} of the ledger: how often the office was taken, name and
//	        address of the process, and how often that process has put the head, so that no two have the same value
//	head    {"v":1,"n":17} of a space
//	claim   {"v":1,"space":"…","prefix":"10.0.0.0/26"}
//	pool    {"v":1,"space":"…","cidr":"10.0.0.0/8","excluded":["…"],"parent":"…","state":"open|draining",
//	        "cluster":"…","name":"…"}
//	        "frozen":true if it has lost changes, "at":"…" when it was registered
//	        "until":"…" of a child that drains: when the blocks that cooled in it would have been free
//	        "derived":{"class":"…","workspace":"…","scope":{"network":{"apiGroup":"…","kind":"…","name":"…"}},"by":"…",
//	        "holder":{"claim":"…",…},"since":"…"}
//	        of an address space {"v":1,"workspace":"…","scope":{…}} alone: the rest is its pool's
//	block   {"v":1,"pool":"…","claim":"…","cluster":"…","ns":"…","name":"…","class":"…","policy":"Delete|Retain",
//	        "state":"bound|retained","slice":true,"at":"2026-01-02T03:04:05.678Z"}
//	        "until":"…", when the state ends by itself: of a retained block, its lease; with "state":"cooling",
//	        its cooldown; of a bound block that a CREATE got back while it cooled, that cooldown
//	        "since":"…" if the holder began to have it before "at"; of a cooling block, when it was freed
//	        "adopted":true if it was adopted from a published record
//	history {"v":1,"t":[{"p":"10.0.0.0/26","r":17,"o":"…","c":"…","w":"…","s":"…","n":"…","k":"…",
//	        "slice":true,"adopted":true,"f":1767225600000,"u":1767229200000,"l":1767229500000,"y":"Released"}]}
//	        for each tenure: prefix, revision of the block's last change, pool, claim, cluster, namespace, name, class;
//	        begin, end, and end of the cooldown in milliseconds since 1970; cause
//
//	slices  {"v":1,"given":17}
//	slice   {"v":1,"binding":"…","child":"…","state":"waiting|given|declined","since":"…"}
//
// # Invariants
//
//	I1  No two blocks of a space overlap.
//	I2  A block exists if and only if its claim's key does.
//	I3  A claim has one block at most, one that cools included.
//	I4  What was published for a claim is its block in the ledger. (The callers' part.)
//	I5  Nothing is freed without a live confirmation. (The callers' part.)
//
// I1 holds because every transaction compares the head of the ledger, and each that writes puts the next head. So when
// a transaction commits, the ledger is still as the memory on which it was planned. I2 and I3 hold because block and
// claim are written together, and the claim only where there is none. A bind also compares that there is no block at
// its prefix. So if memory is wrong, for example after a change by hand, nothing is written, and the process ends with
// ErrReplaced. A pool is removed only when it is empty, and no bind is planned in a removed pool.
//
// # Crashes
//
// What a stop of the process at each point leaves behind, and what repairs it:
//
//	before the transaction is sent       nothing; the caller asks again
//	after it is sent, before it commits  all of it or nothing; Bind and Release of the same claim find out
//	after it commits, before the answer  all of it; Bind returns the block, Release finds none
//	while a prefix is held for a waiting claim  nothing: holds are in memory; the claim asks again
//	after the last block of a draining pool, or of an address space, is freed  the empty pool, gone at the next Open
//	while blocks cool                    nothing: their ends are in the ledger
//	while a pool whose blocks cool is retired  a draining pool with fewer of them, or none; retired by the next try
//	while the ledger is first opened     an ID without pools, or nothing
//
// If the answer to a transaction is lost and the process lives on, the transaction may still be on its way to etcd, and
// a read does not show that. So the writer asks for the head of the ledger. If it is the head that the lost transaction
// puts, the transaction was committed. If it is still the head before, the writer puts another head, after which the
// lost transaction cannot be committed any more (internal/store/office.go).
package allocator
