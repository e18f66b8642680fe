package allocator

import (
	"log/slog"
	"math/big"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kcp-ipam/ipam/allocator/index"
)

// PoolID identifies a pool for life: the UID of its IPPool.
type PoolID string

// ClaimID identifies who holds a block, and is the idempotency key of a bind:
// the UID of an IPClaim, or of the child IPPool that was carved.
type ClaimID string

// SpaceID names a space: the unit in which no two blocks overlap, and the unit
// of contention. A pool has a space of its own unless it joins an address domain.
type SpaceID string

// ClusterName is the ID of a logical cluster, never its path.
type ClusterName string

// Holder says which object a block was given to, well enough to find that
// object again without any cache.
type Holder struct {
	Claim     ClaimID
	Cluster   ClusterName
	Namespace string // empty for a child pool, which is cluster-scoped
	Name      string
}

// ReclaimPolicy says what becomes of a block when its claim is deleted.
type ReclaimPolicy string

// The reclaim policies, spelled as in the Kubernetes API.
const (
	Delete ReclaimPolicy = "Delete"
	Retain ReclaimPolicy = "Retain"
)

// BlockState is the state of a block in the ledger.
type BlockState string

const (
	// Bound blocks are held by a live claim or child pool.
	Bound BlockState = "bound"
	// Reserved blocks are promised to a claim that is being created; see Reserve.
	Reserved BlockState = "reserved"
	// Retained blocks have outlived their claim and live as long as their IPAllocation.
	Retained BlockState = "retained"
	// Cooling blocks were freed a moment ago, and are nobody's until their cooldown is over.
	// Their claim has no block: Lookup finds none.
	Cooling BlockState = "cooling"
	// Disputed blocks are claimed by two published records and are never handed
	// out; see Adopt.
	Disputed BlockState = "disputed"
)

// Block is the ledger's record of a prefix that was given out.
type Block struct {
	Prefix netip.Prefix
	Pool   PoolID
	Space  SpaceID
	Holder Holder
	Class  string
	Policy ReclaimPolicy
	State  BlockState
	// Shared: more than one request was answered with this block, the last one at BoundAt; see
	// Confirm.
	Shared bool
	// BoundAt is when the block was bound, or when its reservation was last answered, by the
	// clock of the Allocator that did so, to the millisecond.
	BoundAt time.Time
	// Until is when the state ends by itself: a cooling block is free then, a retained one is
	// released. Zero: it does not. A reservation has that of the cooling block it was made of,
	// and is that again when it is freed before.
	Until time.Time
	// Slice: the system gave it to the workspace unasked, and no limit counts it.
	Slice    bool
	Revision int64 // etcd revision of the block's last change; the precondition of ReleaseIf
}

// PoolState is the state of a pool in the ledger.
type PoolState string

const (
	// PoolOpen: the pool hands out blocks.
	PoolOpen PoolState = "open"
	// PoolDraining: the pool keeps its blocks and its CIDR, and hands out
	// nothing. It is retired when its last block is gone.
	PoolDraining PoolState = "draining"
)

// Pool is a window on a space, registered in the ledger.
type Pool struct {
	ID      PoolID
	Cluster ClusterName
	Name    string
	// Space is the pool's space. Empty at registration: a space of its own.
	Space SpaceID
	CIDR  netip.Prefix
	// Excluded lists the prefixes inside CIDR that are never handed out
	// (reservations and exclusions alike). They count as allocated.
	Excluded []netip.Prefix
	// Parent is the pool this one was carved from; empty for a root pool.
	Parent PoolID
	State  PoolState
	// RegisteredAt is when the pool came into the ledger, by the clock of the Allocator that
	// registered it. Zero for a pool of a program that did not note it.
	RegisteredAt time.Time
	// CoolsUntil is, of a child that drains, when the last of the blocks that cooled in it
	// would have been free: its own block cools in the parent until then.
	CoolsUntil time.Time
	// Frozen: the ledger lacks changes of the pool's space, and nothing is allocated
	// from that until Resume. It is in the ledger, for every Allocator.
	Frozen bool
}

// Capacity counts a pool's addresses, exactly, whatever their number.
// Allocated + Available = Total; exclusions count as allocated.
type Capacity struct {
	Total, Allocated, Available *big.Int
	// Cooling is the part of Allocated that was freed, and is given to nobody before its
	// cooldown is over.
	Cooling *big.Int
	// NextRelease is when the next cooling block is free; zero if none cools.
	NextRelease time.Time
	// Blocks is the number of blocks held of the pool, cooling ones, exclusions and the
	// blocks of other pools of its domain not counted.
	Blocks int
	// Stranded is the number of those that lie in an exclusion, in part or whole:
	// they were given out before it was made.
	Stranded int
	// Changes counts all changes that were ever made to the pool's space. A
	// ledger that shows fewer than were seen before has lost some.
	Changes int64
	// LargestFree is the prefix length of the largest free block; -1 if nothing is free.
	LargestFree int
}

// Request asks for one block of one pool.
type Request struct {
	Pool   PoolID
	Holder Holder
	// Length is the prefix length wanted. Ignored when Exact is valid.
	Length int
	// Exact asks for this prefix and no other. The zero Prefix asks for any.
	Exact    netip.Prefix
	Strategy index.Strategy // zero value: FirstFit
	Class    string
	Policy   ReclaimPolicy // zero value: Delete
	// Since is when the claim was made. It is the claim's place among those
	// that wait for room: the oldest that fits is served first.
	Since time.Time

	// Until is when the lease of a retained block ends that is adopted; see Adopt. Zero: it has
	// none.
	Until time.Time

	// Limits bound what the holder's workspace may have with this block. The zero
	// value sets none.
	Limits Limits
	// Slice marks a block that the system gives to a workspace unasked: no limit
	// counts it.
	Slice bool

	adopts   bool // a published record says so: exclusions and frost do not count
	reserves bool // the holder is a reservation
}

// Options configure an Allocator. The zero value is ready to use.
type Options struct {
	// Prefix of all keys. Default "/ipam/v1".
	Prefix string
	// MaxTxnOps is the etcd server's --max-txn-ops, which bounds how many
	// requests share one transaction. Default 128, which is etcd's own.
	MaxTxnOps int
	// QueueLimit bounds how many requests may be queued for one space;
	// beyond it Bind and Release answer ErrBusy. Default 8192.
	QueueLimit int
	// HoldTime is how long freed room is held for the waiting claim that it
	// was offered to. Default 10 s.
	HoldTime time.Duration
	// Frozen has every pool begin frozen in this Allocator: nothing is allocated from its
	// space before Trust. It is for callers that publish what they are given, and so can
	// tell a ledger that was lost or restored from one that is whole. Blocks that are
	// held are found, changed, adopted and released all the same.
	Frozen bool
	// Wake is called when room was found for a claim that waits: it should
	// Bind again soon. And when the block of a claim is in dispute no longer. It
	// must not block. Default: nobody is told.
	Wake func(Holder)
	// Cooldown says for how long a block that is freed is given to nobody; 0 or less: it is
	// free at once. It is asked as the block is about to be freed. An error keeps the block: the
	// caller gets it. Default: no block cools.
	Cooldown func(Block) (time.Duration, error)
	// Changed is called when the usage or state of pools of one space changed, with those
	// that one change concerns. It must not block, nor keep the list.
	Changed func(...PoolID)
	// Retired is called when a pool has left the ledger, by this Allocator or by another one:
	// a pool that it refused may be registered now. It may be called more than once for a
	// pool. It must not block. Default: nobody is told.
	Retired func(Pool)
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Registerer receives the allocator's metrics. Default: none.
	Registerer prometheus.Registerer
}
