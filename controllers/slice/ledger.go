package slice

import (
	"context"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Ledger is the part of the ledger that the walk uses, view by view.
type Ledger struct {
	Blocks Blocks
	Slices Slices
}

// LedgerOf returns the views of an Allocator.
func LedgerOf(a *allocator.Allocator) Ledger {
	return Ledger{Blocks: a, Slices: a.Slices()}
}

// Blocks are the blocks of the ledger. *allocator.Allocator has these methods.
type Blocks interface {
	Lookup(ctx context.Context, claim ledger.ClaimID) (b ledger.Block, ok bool, err error)
}

// Slices are the records of slices. allocator.Slices has these methods.
type Slices interface {
	Get(ctx context.Context, pool ledger.PoolID, c ledger.ClusterName) (s ledger.Slice, ok bool, err error)
	List(ctx context.Context, pool ledger.PoolID) ([]ledger.Slice, error)
	Put(ctx context.Context, s ledger.Slice, limit int) error
	Drop(ctx context.Context, pool ledger.PoolID, c ledger.ClusterName) error
	DropAll(ctx context.Context, pool ledger.PoolID) error
}
