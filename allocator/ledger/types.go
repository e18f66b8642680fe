package ledger

import (
	"math/big"
	"net/netip"
	"time"
)

// PoolID identifies a pool for life: the UID of its IPPool, or what DerivedID and AddressSpaceID return.
type PoolID string

// ClaimID identifies the holder of a block, and is the idempotency key of a bind:
// the UID of an IPClaim or the allocation ID that its status shows, or the ID of the child pool that was carved.
type ClaimID string

// SpaceID names a space: the unit in which no two blocks overlap, and the unit
// of contention. A pool has a space of its own unless it joins an address domain.
type SpaceID string

// ClusterName is the ID of a logical cluster, never its path.
type ClusterName string

// Holder names the object that a block was given to, so that it can be found
// without a cache.
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
	// Retained blocks have outlived their claim, and stay as long as their IPAllocation.
	Retained BlockState = "retained"
	// Cooling blocks were freed, and have no holder until their cooldown is over. Their claim
	// has no block: Lookup finds none.
	Cooling BlockState = "cooling"
)

// Position is where a block lies: its space and its prefix.
type Position struct {
	Space  SpaceID
	Prefix netip.Prefix
}

// Block is the ledger's record of a prefix that was given out.
type Block struct {
	Prefix netip.Prefix
	Pool   PoolID
	Space  SpaceID
	Holder Holder
	Class  string
	Policy ReclaimPolicy
	State  BlockState
	// BoundAt is when the block was bound, by the clock of the Allocator that did so, to the millisecond.
	BoundAt time.Time
	// Until is when the state ends by itself: a cooling block is free then, and a retained block is released. Zero: the
	// state does not end by itself. A bound block that cooled keeps the end of the cooldown if an allocation ID holds it:
	// if the CREATE fails, the block cools again until then.
	Until time.Time
	// Since is when the tenure began, if that is not BoundAt: the block cooled, and was given back. For a cooling block,
	// Since is when the block was freed. Zero: the tenure began at BoundAt, or a program without history wrote the block.
	Since time.Time
	// Adopted: the ledger took it from a published record, at BoundAt.
	Adopted bool
	// Slice: the system gave it to the workspace by itself, and no limit counts it.
	Slice    bool
	Revision int64 // etcd revision of the block's last change; the precondition of ReleaseFor
}

// PoolState is the state of a pool in the ledger.
type PoolState string

const (
	// PoolOpen: the pool allocates blocks.
	PoolOpen PoolState = "open"
	// PoolDraining: the pool keeps its blocks and its CIDR, and allocates
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
	// Excluded lists the prefixes inside CIDR from which nothing is allocated
	// (reservations and exclusions alike). They count as allocated.
	Excluded []netip.Prefix
	// Parent is the pool this one was carved from; empty for a root pool.
	Parent PoolID
	State  PoolState
	// RegisteredAt is when the pool came into the ledger, by the clock of the Allocator that
	// registered it.
	RegisteredAt time.Time
	// CoolsUntil is the end of the last cooldown in a child that drains. The child's own block cools in the parent until
	// then.
	CoolsUntil time.Time
	// Frozen: the ledger lacks changes of the pool's space, from which nothing is allocated until
	// Resume.
	Frozen bool
	// Derived describes the purpose of a pool that the system has made. Nil: the system has not made the pool. A Derived
	// is never changed, but replaced.
	Derived *Derived
	// Closing says that a derived pool is closed. It is in memory alone.
	Closing Closing
}

// Capacity counts a pool's addresses, exactly, whatever their number.
// Allocated + Available = Total; exclusions count as allocated.
type Capacity struct {
	Total, Allocated, Available *big.Int
	// Cooling is the part of Allocated that was freed, and whose cooldown is not over.
	Cooling *big.Int
	// NextRelease is when the next cooling block is free; zero if none cools.
	NextRelease time.Time
	// Blocks is the number of the pool's blocks that have a holder. Cooling ones, exclusions
	// and the blocks of other pools of its domain do not count.
	Blocks int
	// Stranded is the number of blocks that lie in an exclusion, in part or whole:
	// they were allocated before it was made.
	Stranded int
	// Changes counts all changes that were ever made to the pool's space. A
	// ledger that shows fewer than were seen before has lost some.
	Changes int64
	// LargestFree is the prefix length of the largest free block; -1 if nothing is free.
	LargestFree int
}
