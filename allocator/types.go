package allocator

import (
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// The words of the ledger, which are described in package ledger.
type (
	// PoolID identifies a pool for life.
	PoolID = ledger.PoolID
	// ClaimID identifies who holds a block.
	ClaimID = ledger.ClaimID
	// SpaceID names a space.
	SpaceID = ledger.SpaceID
	// ClusterName is the ID of a logical cluster.
	ClusterName = ledger.ClusterName
	// Holder says which object a block was given to.
	Holder = ledger.Holder
	// ReclaimPolicy says what becomes of a block when its claim is deleted.
	ReclaimPolicy = ledger.ReclaimPolicy
	// BlockState is the state of a block.
	BlockState = ledger.BlockState
	// Block is the record of a prefix that was given out.
	Block = ledger.Block
	// Position is where a block lies: its space and its prefix.
	Position = space.Position
	// PoolState is the state of a pool.
	PoolState = ledger.PoolState
	// Pool is a window on a space.
	Pool = ledger.Pool
	// Capacity counts a pool's addresses.
	Capacity = ledger.Capacity
	// Slice is what a workspace has of a pool that gives every workspace one block.
	Slice = ledger.Slice
	// Request asks for one block of one pool.
	Request = ledger.Request
	// Limits bound what the workspace of a request may hold.
	Limits = ledger.Limits
	// Lease is that of a retained block.
	Lease = ledger.Lease
	// Tenure is the time during which one holder has a block, or had it.
	Tenure = ledger.Tenure
	// Cause says why the holder of a block has it no longer.
	Cause = ledger.Cause
	// Event is one thing that has happened to the holder of a block.
	Event = ledger.Event
	// EventKind says what has happened.
	EventKind = ledger.EventKind
	// ForgottenError says that etcd no longer has what happened.
	ForgottenError = ledger.ForgottenError
	// SliceState is the state of a slice.
	SliceState = ledger.SliceState
)

// What reads a ledger without an Allocator.
type (
	// Reader reads a ledger without taking part in it.
	Reader = store.Reader
	// Visitor is told what a Reader finds.
	Visitor = store.Visitor
)

// The values of those words.
const (
	Delete = ledger.Delete
	Retain = ledger.Retain

	Bound    = ledger.Bound
	Reserved = ledger.Reserved
	Retained = ledger.Retained
	Cooling  = ledger.Cooling
	Disputed = ledger.Disputed

	PoolOpen     = ledger.PoolOpen
	PoolDraining = ledger.PoolDraining

	CauseReleased      = ledger.CauseReleased
	CauseLeaseExpired  = ledger.CauseLeaseExpired
	CauseWorkspaceGone = ledger.CauseWorkspaceGone
	CausePoolRetired   = ledger.CausePoolRetired
	CauseCreateFailed  = ledger.CauseCreateFailed
	CauseSuperseded    = ledger.CauseSuperseded

	SliceWaiting  = ledger.SliceWaiting
	SliceGiven    = ledger.SliceGiven
	SliceDeclined = ledger.SliceDeclined

	MaxSpacePools = ledger.MaxSpacePools
)

// DomainSpace is the space shared by the pools of one address domain of a cluster.
func DomainSpace(cluster ClusterName, domain string) SpaceID {
	return ledger.DomainSpace(cluster, domain)
}

// ReservationID names a reservation of a workspace. The sum identifies the request: one that
// is repeated must have the same, and no two different requests may share one. It must not
// contain a dot or a slash.
func ReservationID(cluster ClusterName, sum string) ClaimID {
	return ledger.ReservationID(cluster, sum)
}
