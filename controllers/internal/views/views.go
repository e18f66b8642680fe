// Package views has the views of the ledger that the walks share, each with the methods that they use. A test can put a
// fake in the place of one view.
package views

import (
	"context"
	"iter"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Ledger is the ledger, view by view.
type Ledger struct {
	Blocks   Blocks
	Pools    Pools
	Waits    Waits
	Retained Retained
	Recovery Recovery
	Slices   Slices
	Derived  allocator.Derived
}

// Of returns the views of an Allocator.
func Of(a *allocator.Allocator) Ledger {
	return Ledger{
		Blocks: a, Pools: a.Pools(), Waits: a.Waits(), Retained: a.Retained(), Recovery: a.Recovery(),
		Slices: a.Slices(), Derived: a.Derived(),
	}
}

// Blocks are the blocks of the ledger: see allocator.Allocator.
type Blocks interface {
	Bind(ctx context.Context, r ledger.Request) (ledger.Block, error)
	Preview(ctx context.Context, r ledger.Request) (netip.Prefix, error)
	Lookup(ctx context.Context, claim ledger.ClaimID) (b ledger.Block, ok bool, err error)
	List(ctx context.Context, opts allocator.ListOptions) iter.Seq2[ledger.Block, error]
	ChangedBlocks() map[ledger.Position]ledger.Block
	Release(ctx context.Context, claim ledger.ClaimID) error
	ReleaseFor(ctx context.Context, b ledger.Block, cause ledger.Cause) error
	Revision() int64
}

// Pools are the pools of the ledger: see allocator.Pools.
type Pools interface {
	Get(id ledger.PoolID) (ledger.Pool, bool)
	All() iter.Seq[ledger.Pool]
	Count(c ledger.ClusterName) int
	Capacity(id ledger.PoolID) (ledger.Capacity, bool)
	Changes(id ledger.PoolID) (int64, error)
	InUse(id ledger.PoolID) bool
	MayHold(id ledger.PoolID) bool
	FreeBlocks(id ledger.PoolID) (index.Histogram, bool)
	Regains(r ledger.Request) bool
	Read(ctx context.Context, id ledger.PoolID) (p ledger.Pool, revision int64, ok bool, err error)
	Overlapping(ctx context.Context, id ledger.PoolID, prefix netip.Prefix) ([]ledger.Block, error)
	Register(ctx context.Context, pool ledger.Pool) (ledger.Pool, error)
	Carve(ctx context.Context, r ledger.Request, child ledger.Pool) (ledger.Pool, error)
	Exclude(ctx context.Context, id ledger.PoolID, excluded []netip.Prefix) error
	Drain(ctx context.Context, id ledger.PoolID) error
	Retire(ctx context.Context, id ledger.PoolID) error
	Retired(ctx context.Context, id ledger.PoolID) (bool, error)
}

// Waits are the waiting lists of the ledger: see allocator.Waits.
type Waits interface {
	Add(r ledger.Request)
	KeepOnly(claim ledger.ClaimID, at ...ledger.PoolID)
	Withdraw(claim ledger.ClaimID)
}

// Retained are the blocks that outlive their claims: see allocator.Retained.
type Retained interface {
	Retain(ctx context.Context, claim ledger.ClaimID, until time.Time) (b ledger.Block, ok bool, err error)
	HandOver(ctx context.Context, b ledger.Block, to allocator.Successor) (ledger.Block, error)
	SetPolicy(ctx context.Context, claim ledger.ClaimID, policy ledger.ReclaimPolicy) error
}

// Recovery tells what the ledger may have lost: see allocator.Recovery.
type Recovery interface {
	LedgerID() string
	Frozen(id ledger.PoolID) bool
	Trust(id ledger.PoolID)
}

// Slices are the records of slices: see allocator.Slices.
type Slices interface {
	Get(ctx context.Context, pool ledger.PoolID, c ledger.ClusterName) (s ledger.Slice, ok bool, err error)
	List(ctx context.Context, pool ledger.PoolID) ([]ledger.Slice, error)
	Put(ctx context.Context, s ledger.Slice, limit int) error
	Drop(ctx context.Context, pool ledger.PoolID, c ledger.ClusterName) error
	DropAll(ctx context.Context, pool ledger.PoolID) error
}
