package allocator

import (
	"context"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Lookup reads the block of a claim from the ledger, as of now. ok is false if
// the claim has none. A block that cools has no holder.
func (a *Allocator) Lookup(ctx context.Context, id ClaimID) (b Block, ok bool, err error) {
	b, err = a.latest(ctx, id)
	if err != nil || b.State == "" || b.State == Cooling {
		return Block{}, false, err
	}
	return b, true, nil
}

// latest reads the block of a claim, also if it cools; the zero Block: there is none.
func (a *Allocator) latest(ctx context.Context, id ClaimID) (b Block, err error) {
	if err := ledger.CheckID("claim", id); err != nil {
		return Block{}, err
	}
	r, ok, err := a.store.RecordOf(ctx, id)
	if err != nil || !ok {
		return Block{}, err
	}
	return r.Block(r.Holdings[r.Of(id)]), nil
}

// BlockAt reads the block at exactly this prefix of a pool's space from the
// ledger, as of now. ok is false if there is none, or the pool is unknown. A disputed
// block is returned with its oldest holder.
func (a *Allocator) BlockAt(ctx context.Context, id PoolID, p netip.Prefix) (b Block, ok bool, err error) {
	pool, ok := a.Pool(id)
	if !ok || !p.IsValid() {
		return Block{}, false, nil
	}
	r, ok, err := a.store.RecordAt(ctx, pool.Space, p.Masked())
	if err != nil || !ok {
		return Block{}, false, err
	}
	return r.Block(r.Holdings[0]), true, nil
}
