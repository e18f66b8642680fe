package allocator

import (
	"context"
	"fmt"
	"net/netip"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Lookup reads the block of a claim from the ledger, as of now. ok is false if
// the claim has none. A block that cools is nobody's.
func (a *Allocator) Lookup(ctx context.Context, id ClaimID) (b Block, ok bool, err error) {
	b, err = a.latest(ctx, id)
	if err != nil || b.State == "" || b.State == Cooling {
		return Block{}, false, err
	}
	return b, true, nil
}

// latest reads the block that a claim has, or had and that cools; the zero Block without one.
func (a *Allocator) latest(ctx context.Context, id ClaimID) (b Block, err error) {
	if err := checkID("claim", id); err != nil {
		return Block{}, err
	}
	for {
		r, ok, err := a.noted(ctx, id)
		switch {
		case is(err, rpctypes.ErrCompacted):
			continue
		case err != nil || !ok:
			return Block{}, err
		}
		return r.block(r.holdings[r.of(id)]), nil
	}
}

// recordOf reads the block that a claim has.
func (a *Allocator) recordOf(ctx context.Context, id ClaimID) (r record, ok bool, err error) {
	r, ok, err = a.noted(ctx, id)
	return r, ok && r.holdings[r.of(id)].State != Cooling, err
}

// noted reads the claim, then the block that it has, or had and that cools, as of the same
// revision.
func (a *Allocator) noted(ctx context.Context, id ClaimID) (r record, ok bool, err error) {
	key := a.keys.claim(id)
	kv, revision, err := a.read(ctx, key)
	if err != nil || kv == nil {
		return record{}, false, err
	}
	var v claimValue
	if err = decode(key, kv.Value, &v); err != nil {
		return record{}, false, err
	}
	r, ok, err = a.recordAt(ctx, v.Space, v.Prefix, clientv3.WithRev(revision))
	if err == nil && (!ok || r.of(id) < 0) {
		return record{}, false, fmt.Errorf("key %s: the claim has no block %s in space %s", key, v.Prefix, v.Space)
	}
	return r, ok, err
}

// BlockAt reads the block at exactly this prefix of a pool's space from the
// ledger, as of now. ok is false if there is none, or the pool is unknown. Of a
// disputed block the oldest holder is returned.
func (a *Allocator) BlockAt(ctx context.Context, id PoolID, p netip.Prefix) (b Block, ok bool, err error) {
	pool, ok := a.Pool(id)
	if !ok || !p.IsValid() {
		return Block{}, false, nil
	}
	r, ok, err := a.recordAt(ctx, pool.Space, p.Masked())
	if err != nil || !ok {
		return Block{}, false, err
	}
	return r.block(r.holdings[0]), true, nil
}

func (a *Allocator) recordAt(ctx context.Context, s SpaceID, p netip.Prefix, opts ...clientv3.OpOption) (record, bool, error) {
	kv, _, err := a.read(ctx, a.keys.block(s, p), opts...)
	if err != nil || kv == nil {
		return record{}, false, err
	}
	r, err := decodeRecord(s, p, kv)
	return r, err == nil, err
}
