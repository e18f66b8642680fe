package release

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Ledger is the part of the ledger that the walk uses, view by view.
type Ledger struct {
	Blocks       Blocks
	Pools        Pools
	Waits        Waits
	Reservations Reservations
	Retained     Retained
}

// LedgerOf returns the views of an Allocator.
func LedgerOf(a *allocator.Allocator) Ledger {
	return Ledger{Blocks: a, Pools: a.Pools(), Waits: a.Waits(), Reservations: a.Reservations(), Retained: a.Retained()}
}

// Blocks are the blocks of the ledger. *allocator.Allocator has these methods.
type Blocks interface {
	Lookup(ctx context.Context, claim ledger.ClaimID) (b ledger.Block, ok bool, err error)
	ReleaseFor(ctx context.Context, b ledger.Block, cause ledger.Cause) error
	Revision() int64
}

// Pools are the pools of the ledger. allocator.Pools has these methods.
type Pools interface {
	Read(ctx context.Context, id ledger.PoolID) (p ledger.Pool, revision int64, ok bool, err error)
	Drain(ctx context.Context, id ledger.PoolID) error
}

// Waits are the waiting lists of the ledger. allocator.Waits has these methods.
type Waits interface {
	Withdraw(claim ledger.ClaimID)
}

// Reservations are those of the ledger. allocator.Reservations has these methods.
type Reservations interface {
	Confirm(ctx context.Context, c allocator.Confirmation) (b ledger.Block, ok bool, err error)
}

// Retained are the blocks that outlive their claims. allocator.Retained has these methods.
type Retained interface {
	Retain(ctx context.Context, claim ledger.ClaimID, until time.Time) (b ledger.Block, ok bool, err error)
	Reuse(ctx context.Context, b ledger.Block, to allocator.Successor) (ledger.Block, error)
}
