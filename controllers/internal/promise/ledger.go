package promise

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Ledger is the part of the ledger that a Keeper uses, view by view.
type Ledger struct {
	Blocks       Blocks
	Reservations Reservations
	Retained     Retained
}

// Blocks are the blocks of the ledger. *allocator.Allocator has these methods.
type Blocks interface {
	Lookup(ctx context.Context, claim ledger.ClaimID) (b ledger.Block, ok bool, err error)
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
