package allocator

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Reader reads a ledger without taking part in it: it writes nothing, follows
// nothing and keeps nothing. Safe for concurrent use.
type Reader struct {
	Client *clientv3.Client
	// Prefix of all keys, as in Options. Default "/ipam/v1".
	Prefix string
}

// Visitor is told what a ledger holds: all pools, then the blocks of each space
// in the order of their addresses and the space's head, then all claims. Its
// functions are called one at a time. All fields are required.
type Visitor struct {
	Pool func(Pool)
	// Block is called once for each holder of a block.
	Block func(Block)
	// Head says that a space has one.
	Head func(SpaceID)
	// Claim says where the key of a claim leads.
	Claim func(ClaimID, SpaceID, netip.Prefix)
	// Damaged names a key that cannot be read, and why.
	Damaged func(key string, err error)
	// Unread names a block that is there, and whose key was Damaged.
	Unread func(SpaceID, netip.Prefix)
}

// Walk tells the visitor the whole ledger as of one revision, which it returns,
// and reads it page by page. Nothing is checked that the keys do not say of
// themselves. ErrExpired: the walk took longer than etcd keeps history.
func (r Reader) Walk(ctx context.Context, visitor Visitor) (revision int64, err error) {
	s := NewStore(r.Client, r.Prefix)
	w, pages := walk{visitor: visitor, keys: s.Keys}, s.newPager(0)
	for _, part := range []struct {
		prefix string
		visit  func(*mvccpb.KeyValue) error
	}{
		{w.keys.pools(), w.pool},
		{w.keys.spaces(), w.space},
		{w.keys.claim(""), w.claim},
	} {
		pages.windows = windows(w.keys, w.pools, false)
		for kv, err := range pages.keys(ctx, part.prefix, clientv3.GetPrefixRangeEnd(part.prefix)) {
			if err != nil {
				return 0, err
			}
			if err := part.visit(kv); err != nil {
				visitor.Damaged(string(kv.Key), err)
			}
		}
	}
	return pages.revision, nil
}

// walk is one Walk.
type walk struct {
	visitor Visitor
	keys    keyspace
	pools   []Pool // told so far
}

func (w *walk) pool(kv *mvccpb.KeyValue) error {
	key := string(kv.Key)
	n, err := w.keys.parse(key)
	if err != nil {
		return err
	}
	p, err := decodePool(key, n.pool, kv.Value)
	if err == nil {
		w.pools = append(w.pools, p)
		w.visitor.Pool(p)
	}
	return err
}

func (w *walk) space(kv *mvccpb.KeyValue) error {
	key := string(kv.Key)
	n, err := w.keys.parse(key)
	if err != nil {
		return err
	}
	switch n.kind {
	case headKey:
		if _, err := decodeHead(key, kv.Value); err != nil {
			return err
		}
		w.visitor.Head(n.space)
	case blockKey:
		r, err := decodeRecord(n.space, n.prefix, kv)
		if err != nil {
			w.visitor.Unread(n.space, n.prefix)
			return err
		}
		for _, h := range r.holdings {
			w.visitor.Block(r.block(h))
		}
	case waitersKey:
	default:
		return fmt.Errorf("key %s: it is neither a head, a block nor the mark of waiters", key)
	}
	return nil
}

func (w *walk) claim(kv *mvccpb.KeyValue) error {
	space, p, err := decodeClaim(kv)
	if err == nil {
		w.visitor.Claim(ClaimID(strings.TrimPrefix(string(kv.Key), w.keys.claim(""))), space, p)
	}
	return err
}
