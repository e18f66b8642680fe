package allocator

import (
	"context"
	"fmt"
	"net/netip"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Lookup reads the block of a claim from the ledger, as of now. ok is false if
// the claim has none.
func (a *Allocator) Lookup(ctx context.Context, id ClaimID) (b Block, ok bool, err error) {
	if err := checkID("claim", id); err != nil {
		return Block{}, false, err
	}
	for {
		b, ok, err = a.lookup(ctx, id)
		if !is(err, rpctypes.ErrCompacted) {
			return b, ok, err
		}
	}
}

// lookup reads the claim, then its block as of the same revision.
func (a *Allocator) lookup(ctx context.Context, id ClaimID) (b Block, ok bool, err error) {
	key := a.keys.claim(id)
	kv, revision, err := a.read(ctx, key)
	if err != nil || kv == nil {
		return Block{}, false, err
	}
	var v claimValue
	if err := decode(key, kv.Value, &v); err != nil {
		return Block{}, false, err
	}
	b, ok, err = a.block(ctx, v.Space, v.Prefix, clientv3.WithRev(revision))
	if err == nil && !ok {
		return Block{}, false, fmt.Errorf("key %s: there is no block %s in space %s", key, v.Prefix, v.Space)
	}
	return b, ok, err
}

// BlockAt reads the block at exactly this prefix of a pool's space from the
// ledger, as of now. ok is false if there is none, or the pool is unknown.
func (a *Allocator) BlockAt(ctx context.Context, id PoolID, p netip.Prefix) (b Block, ok bool, err error) {
	pool, ok := a.Pool(id)
	if !ok || !p.IsValid() {
		return Block{}, false, nil
	}
	return a.block(ctx, pool.Space, p.Masked())
}

func (a *Allocator) block(ctx context.Context, s SpaceID, p netip.Prefix, opts ...clientv3.OpOption) (Block, bool, error) {
	key := a.keys.block(s, p)
	kv, _, err := a.read(ctx, key, opts...)
	if err != nil || kv == nil {
		return Block{}, false, err
	}
	b, err := decodeBlock(key, s, p, kv.Value, kv.ModRevision)
	return b, err == nil, err
}
