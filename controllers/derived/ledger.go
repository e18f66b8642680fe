package derived

import (
	"context"
	"iter"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Ledger is the part of the ledger that the walk uses, view by view.
type Ledger struct {
	Blocks   Blocks
	Pools    Pools
	Recovery Recovery
}

// LedgerOf returns the views of an Allocator.
func LedgerOf(a *allocator.Allocator) Ledger {
	return Ledger{Blocks: a, Pools: a.Pools(), Recovery: a.Recovery()}
}

// Blocks are the blocks of the ledger. *allocator.Allocator has these methods.
type Blocks interface {
	List(ctx context.Context, opts allocator.ListOptions) iter.Seq2[ledger.Block, error]
}

// Pools are the pools of the ledger. allocator.Pools has these methods.
type Pools interface {
	Get(id ledger.PoolID) (ledger.Pool, bool)
	Capacity(id ledger.PoolID) (ledger.Capacity, bool)
	Retire(ctx context.Context, id ledger.PoolID) error
	Retired(ctx context.Context, id ledger.PoolID) (bool, error)
}

// Recovery tells what the ledger may have lost. allocator.Recovery has these methods.
type Recovery interface {
	Frozen(id ledger.PoolID) bool
}
