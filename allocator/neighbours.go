package allocator

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// neighbours are the blocks that overlap a prefix, as they were read.
type neighbours struct {
	of      netip.Prefix
	pool    ledger.PoolID // in whose window the prefix lies
	records []store.Record
	head    int64 // revision of the space's head when they were read
}

// spareOps are kept for an op's own comparisons.
const spareOps = 16

// same is what a transaction compares, so that the neighbours are still as they were read. A space in use moves
// on meanwhile, so that the head is not enough to go by: memory knows how many blocks there are as of the head, and
// the transaction compares each. ErrStale: they have changed, or are too many for that.
func (n neighbours) same(v space.View) ([]store.Change, error) {
	p := v.Pool(n.pool)
	switch {
	case v.Head().Revision == n.head:
		return nil, nil
	case p == nil, len(n.records) > v.Limit-spareOps, p.Neighbours(n.of) != len(n.records):
		return nil, engine.ErrStale
	}
	same := make([]store.Change, 0, len(n.records)+spareOps)
	for _, r := range n.records {
		same = append(same, store.CheckKey(v.Keys.Block(r.Prefix)).At(r.Revision, engine.ErrStale))
	}
	return same, nil
}

const (
	// staleAttempts is how often an op is made from what the ledger has, if that changes each time.
	staleAttempts = 12
	// stalePause is the pause after the first attempt. Each is twice as long as the one before.
	stalePause = time.Millisecond
)

// pace paces the attempts of an op that others have made stale. The zero value has seen none.
type pace int

// wait waits before the next attempt. After the last one it returns ErrBusy.
func (p *pace) wait(ctx context.Context) error {
	if *p++; *p >= staleAttempts {
		return fmt.Errorf("%w: others change the blocks there all the time", ledger.ErrBusy)
	}
	select {
	case <-time.After(stalePause << *p):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
