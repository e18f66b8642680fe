package pool

import (
	"context"
	"iter"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Ledger is the part of the ledger that the walk uses, view by view.
type Ledger struct {
	Blocks   Blocks
	Pools    Pools
	Slices   Slices
	Waits    Waits
	Recovery Recovery
}

// LedgerOf returns the views of an Allocator.
func LedgerOf(a *allocator.Allocator) Ledger {
	return Ledger{Blocks: a, Pools: a.Pools(), Slices: a.Slices(), Waits: a.Waits(), Recovery: a.Recovery()}
}

// Blocks are the blocks of the ledger. *allocator.Allocator has these methods.
type Blocks interface {
	List(ctx context.Context, opts allocator.ListOptions) iter.Seq2[ledger.Block, error]
}

// Table shows the pools of the ledger.
type Table interface {
	Get(id ledger.PoolID) (ledger.Pool, bool)
	Count(c ledger.ClusterName) int
	Capacity(id ledger.PoolID) (ledger.Capacity, bool)
	InUse(id ledger.PoolID) bool
	FreeBlocks(id ledger.PoolID) (index.Histogram, bool)
	Overlapping(ctx context.Context, id ledger.PoolID, prefix netip.Prefix) ([]ledger.Block, error)
}

// Pools are the pools of the ledger. allocator.Pools has these methods.
type Pools interface {
	Table
	Register(ctx context.Context, pool ledger.Pool) (ledger.Pool, error)
	Carve(ctx context.Context, r ledger.Request, child ledger.Pool) (ledger.Pool, error)
	Exclude(ctx context.Context, id ledger.PoolID, excluded []netip.Prefix) error
	Drain(ctx context.Context, id ledger.PoolID) error
	Retire(ctx context.Context, id ledger.PoolID) error
	EndDispute(ctx context.Context, id ledger.PoolID) error
}

// Slices are the records of slices. allocator.Slices has these methods.
type Slices interface {
	Get(ctx context.Context, pool ledger.PoolID, c ledger.ClusterName) (s ledger.Slice, ok bool, err error)
	DropAll(ctx context.Context, pool ledger.PoolID) error
}

// Waits are the waiting lists of the ledger. allocator.Waits has these methods.
type Waits interface {
	Add(r ledger.Request)
	Withdraw(claim ledger.ClaimID)
}

// Recovery tells what the ledger may have lost. allocator.Recovery has these methods.
type Recovery interface {
	LedgerID() string
	Frozen(id ledger.PoolID) bool
	Trust(id ledger.PoolID)
}
