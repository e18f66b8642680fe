package claim

import (
	"context"
	"net/netip"
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
	Derived      allocator.Derived
}

// LedgerOf returns the views of an Allocator.
func LedgerOf(a *allocator.Allocator) Ledger {
	return Ledger{Blocks: a, Pools: a.Pools(), Waits: a.Waits(), Reservations: a.Reservations(), Retained: a.Retained(), Derived: a.Derived()}
}

// Blocks are the blocks of the ledger. *allocator.Allocator has these methods.
type Blocks interface {
	Bind(ctx context.Context, r ledger.Request) (ledger.Block, error)
	Lookup(ctx context.Context, claim ledger.ClaimID) (b ledger.Block, ok bool, err error)
	Release(ctx context.Context, claim ledger.ClaimID) error
	ReleaseFor(ctx context.Context, b ledger.Block, cause ledger.Cause) error
}

// Pools are the pools of the ledger. allocator.Pools has these methods.
type Pools interface {
	Get(id ledger.PoolID) (ledger.Pool, bool)
	Count(c ledger.ClusterName) int
	Overlapping(ctx context.Context, id ledger.PoolID, prefix netip.Prefix) ([]ledger.Block, error)
	Regains(r ledger.Request) bool
}

// Waits are the waiting lists of the ledger. allocator.Waits has these methods.
type Waits interface {
	Add(r ledger.Request)
	KeepOnly(claim ledger.ClaimID, at ...ledger.PoolID)
	Withdraw(claim ledger.ClaimID)
}

// Reservations are those of the ledger. allocator.Reservations has these methods.
type Reservations interface {
	Reserve(ctx context.Context, r ledger.Request) (ledger.Block, error)
	Preview(ctx context.Context, r ledger.Request) (netip.Prefix, error)
	Has(id ledger.ClaimID) bool
	Confirm(ctx context.Context, c allocator.Confirmation) (b ledger.Block, ok bool, err error)
}

// Retained are the blocks that outlive their claims. allocator.Retained has these methods.
type Retained interface {
	Retain(ctx context.Context, claim ledger.ClaimID, until time.Time) (b ledger.Block, ok bool, err error)
	Promise(ctx context.Context, b ledger.Block, grace time.Duration) (ledger.Block, error)
	Reuse(ctx context.Context, b ledger.Block, to allocator.Successor) (ledger.Block, error)
	SetPolicy(ctx context.Context, claim ledger.ClaimID, policy ledger.ReclaimPolicy) error
}
