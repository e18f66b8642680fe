package allocator

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// The block of a child pool may come into dispute. Then others hold some of its addresses, and its own
// space does not show which. So the child is stopped, and with it the pools below it that have these
// addresses: their records in the ledger say that they are Disputed, which every Allocator goes by.
//
// That comes first, and the transaction that begins the dispute compares it. EndDispute compares the child's
// block, and does not let the child go on while that is disputed.

// childrenIn are the child pools that hold a block.
func (rc Recovery) childrenIn(r store.Record) (children []ledger.Pool) {
	for _, h := range r.Holdings {
		if p, ok := rc.a.Pools().Get(ledger.PoolID(h.Claim)); ok && p.Parent == h.Pool {
			children = append(children, p)
		}
	}
	return children
}

// stopBelow stops the child pools that hold blocks which come into dispute, or are in it.
// engine.ErrStale: others have written since.
func (n adoption) stopBelow(ctx context.Context, o *adopt) error {
	if len(o.below) == 0 {
		return nil
	}
	revisions := map[ledger.PoolID]int64{}
	for _, p := range o.below {
		revision, err := n.Recovery().stop(ctx, p, n.req.Exact)
		if errors.Is(err, ledger.ErrUnknownPool) { // it was retired, and its block is gone
			err = engine.ErrStale
		}
		if err != nil {
			return err
		}
		revisions[p.ID] = revision
	}
	for _, r := range append(slices.Clip(o.others), o.record) {
		for _, p := range n.Recovery().childrenIn(r) {
			o.stopped = append(o.stopped, store.CheckKey(n.keys.Pool(p.ID)).At(revisions[p.ID], engine.ErrStale))
		}
	}
	return nil
}

// stop stops a pool, and then the pools below it that have addresses of the prefix. None is carved from it
// by then. It returns the revision of the pool's record.
func (rc Recovery) stop(ctx context.Context, p ledger.Pool, prefix netip.Prefix) (int64, error) {
	if err := rc.a.Pools().edit(ctx, edit{pool: p, change: func(p *ledger.Pool) { p.Disputed = true }}); err != nil {
		return 0, err
	}
	stopped, now, err := rc.poolNow(ctx, p.ID)
	if err == nil && !now.Disputed {
		err = engine.ErrStale
	}
	if err != nil {
		return 0, err
	}
	head, _, err := rc.a.store.Get(ctx, rc.a.keys.Space(p.Space).Head())
	if err == nil && head != nil {
		err = rc.a.engine.Watched.Await(ctx, head.ModRevision) // the pools below it may be in memory later than their blocks
	}
	if err != nil {
		return 0, err
	}
	for below := range rc.a.Pools().All() {
		if below.Above() != p.ID || !below.CIDR.Overlaps(prefix) {
			continue
		}
		if _, err := rc.stop(ctx, below, prefix); err != nil && !errors.Is(err, ledger.ErrUnknownPool) {
			return 0, err
		}
	}
	return stopped, nil
}

// poolNow reads the record of a pool, and its revision.
func (rc Recovery) poolNow(ctx context.Context, id ledger.PoolID) (revision int64, p ledger.Pool, err error) {
	kv, _, err := rc.a.store.Get(ctx, rc.a.keys.Pool(id))
	if err == nil && kv == nil {
		err = ledger.ErrUnknownPool
	}
	if err != nil {
		return 0, ledger.Pool{}, err
	}
	p, err = store.DecodePool(string(kv.Key), id, kv.Value)
	return kv.ModRevision, p, err
}

// EndDispute lets a pool that is Disputed allocate again, and then the pools below it, if the dispute is
// over. Otherwise it does nothing. When the dispute ends, Wake is called for the holder of the pool's block
// in its parent, which is the pool itself. Where a former call has stopped between a pool and those below, it goes on.
func (ps Pools) EndDispute(ctx context.Context, id ledger.PoolID) error {
	p, ok := ps.Get(id)
	if !ok || p.Above() == "" { // no block of a root pool is in dispute
		return nil
	}
	if over, err := ps.endDispute(ctx, id); err != nil || !over {
		return err
	}
	for _, below := range ps.a.table.Below(id) {
		if err := ps.EndDispute(ctx, below); err != nil {
			return err
		}
	}
	return nil
}

// endDispute lets one pool that is Disputed allocate again, if the dispute is over. It reports whether the pool is in no dispute.
func (ps Pools) endDispute(ctx context.Context, id ledger.PoolID) (over bool, err error) {
	for {
		p, ok := ps.Get(id)
		if !ok || !p.Disputed {
			return ok, nil
		}
		same, err := ps.a.Recovery().disputeOver(ctx, p)
		if err != nil || same == nil {
			return false, err
		}
		err = ps.edit(ctx, edit{pool: p, change: func(p *ledger.Pool) { p.Disputed = false }, asFor: same})
		if !errors.Is(err, engine.ErrStale) {
			return err == nil, err
		}
	}
}

// disputeOver returns what has to stay as it is in the ledger, so that the dispute over a child's block is
// over; nil if it is not. A child without a block stays stopped: its addresses may be anybody's.
func (rc Recovery) disputeOver(ctx context.Context, child ledger.Pool) ([]store.Change, error) {
	revision, parent, err := rc.poolNow(ctx, child.Above())
	if errors.Is(err, ledger.ErrUnknownPool) {
		return nil, nil
	}
	if err != nil || parent.Disputed {
		return nil, err
	}
	same := store.CheckKey(rc.a.keys.Pool(parent.ID)).At(revision, engine.ErrStale)
	if child.Parent == "" { // an address space has no block
		return []store.Change{same}, nil
	}
	r, ok, err := rc.a.store.RecordAt(ctx, parent.Space, child.CIDR)
	if err != nil || !ok || r.Disputed || r.Of(ledger.ClaimID(child.ID)) < 0 {
		return nil, err
	}
	block := rc.a.keys.Space(parent.Space).Block(child.CIDR)
	return []store.Change{same, store.CheckKey(block).At(r.Revision, engine.ErrStale)}, nil
}
