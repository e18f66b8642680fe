package adopt

import (
	"context"
	"iter"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Ledger is the part of the ledger that the walk uses, view by view.
type Ledger struct {
	Blocks       Blocks
	Pools        Pools
	Reservations Reservations
	Retained     Retained
	Recovery     Recovery
}

// LedgerOf returns the views of an Allocator.
func LedgerOf(a *allocator.Allocator) Ledger {
	return Ledger{Blocks: a, Pools: a.Pools(), Reservations: a.Reservations(), Retained: a.Retained(), Recovery: a.Recovery()}
}

// Blocks are the blocks of the ledger. *allocator.Allocator has these methods.
type Blocks interface {
	Lookup(ctx context.Context, claim ledger.ClaimID) (b ledger.Block, ok bool, err error)
}

// Table shows the pools of the ledger.
type Table interface {
	Get(id ledger.PoolID) (ledger.Pool, bool)
	All() iter.Seq[ledger.Pool]
	Overlapping(ctx context.Context, id ledger.PoolID, prefix netip.Prefix) ([]ledger.Block, error)
}

// Pools are the pools of the ledger. allocator.Pools has these methods.
type Pools interface {
	Table
	Register(ctx context.Context, pool ledger.Pool) (ledger.Pool, error)
	Drain(ctx context.Context, id ledger.PoolID) error
	Retire(ctx context.Context, id ledger.PoolID) error
	Retired(ctx context.Context, id ledger.PoolID) (bool, error)
}

// Reservations are those of the ledger. allocator.Reservations has these methods.
type Reservations interface {
	Confirm(ctx context.Context, c allocator.Confirmation) (b ledger.Block, ok bool, err error)
}

// Retained are the blocks that outlive their claims. allocator.Retained has these methods.
type Retained interface {
	Retain(ctx context.Context, claim ledger.ClaimID, until time.Time) (b ledger.Block, ok bool, err error)
}

// Freezer freezes what the ledger may have lost.
type Freezer interface {
	LedgerID() string
	Frozen(id ledger.PoolID) bool
	Trust(id ledger.PoolID)
	Behind(ctx context.Context, id ledger.PoolID, changes int64) (bool, error)
	Freeze(ctx context.Context, id ledger.PoolID) error
	Resume(ctx context.Context, id ledger.PoolID, changes int64) error
}

// Recovery tells what the ledger may have lost. allocator.Recovery has these methods.
type Recovery interface {
	Freezer
	Adopt(ctx context.Context, r ledger.Request, state ledger.BlockState) (ledger.Block, error)
	Readopt(ctx context.Context, r ledger.Request, child ledger.Pool) (ledger.Pool, error)
}
