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
	// ClaimID identifies the holder of a block.
	ClaimID = ledger.ClaimID
	// SpaceID names a space.
	SpaceID = ledger.SpaceID
	// ClusterName is the ID of a logical cluster.
	ClusterName = ledger.ClusterName
	// Holder names the object that a block was given to.
	Holder = ledger.Holder
	// ReclaimPolicy is whether a block is freed or retained when its claim is deleted.
	ReclaimPolicy = ledger.ReclaimPolicy
	// BlockState is the state of a block.
	BlockState = ledger.BlockState
	// Block is the record of a prefix that was allocated.
	Block = ledger.Block
	// Position is where a block lies: its space and its prefix.
	Position = space.Position
	// PoolState is the state of a pool.
	PoolState = ledger.PoolState
	// Pool is a window on a space.
	Pool = ledger.Pool
	// Capacity counts a pool's addresses.
	Capacity = ledger.Capacity
	// Slice is the record of one workspace and a pool that gives every workspace one block.
	Slice = ledger.Slice
	// Request asks for one block of one pool.
	Request = ledger.Request
	// Limits bound what the workspace of a request may hold.
	Limits = ledger.Limits
	// Lease is that of a retained block.
	Lease = ledger.Lease
	// Tenure is the time during which one holder has a block, or had it.
	Tenure = ledger.Tenure
	// Cause says why a tenure has ended.
	Cause = ledger.Cause
	// Event is a change of the holders of a block.
	Event = ledger.Event
	// EventKind is the kind of such a change.
	EventKind = ledger.EventKind
	// ForgottenError says that etcd has compacted the requested changes.
	ForgottenError = ledger.ForgottenError
	// SliceState is the state of a slice.
	SliceState = ledger.SliceState
)

// Types to read a ledger without an Allocator.
type (
	// Reader reads a ledger without taking part in it.
	Reader = store.Reader
	// Visitor gets the content of a ledger from a Reader.
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
