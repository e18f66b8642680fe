package allocator

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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
}

// Walk tells the visitor the whole ledger as of one revision, which it returns,
// and reads it page by page. Nothing is checked that the keys do not say of
// themselves. ErrExpired: the walk took longer than etcd keeps history.
func (r Reader) Walk(ctx context.Context, visitor Visitor) (revision int64, err error) {
	w := walk{Reader: r, visitor: visitor, keys: keyspace(strings.TrimSuffix(r.Prefix, "/"))}
	if w.keys == "" {
		w.keys = defaultPrefix
	}
	for _, part := range []struct {
		prefix string
		visit  func(*mvccpb.KeyValue) error
	}{
		{w.keys.pools(), w.pool},
		{w.keys.spaces(), w.space},
		{w.keys.claim(""), w.claim},
	} {
		if err := w.each(ctx, part.prefix, part.visit); err != nil {
			return 0, err
		}
	}
	return w.revision, nil
}

// walk is one Walk.
type walk struct {
	Reader
	visitor  Visitor
	keys     keyspace
	revision int64 // of the first page; 0 before it
}

// each visits the keys below a prefix.
func (w *walk) each(ctx context.Context, prefix string, visit func(*mvccpb.KeyValue) error) error {
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		page, err := w.page(ctx, from, end)
		if err != nil {
			return err
		}
		for _, kv := range page.Kvs {
			if err := visit(kv); err != nil {
				w.visitor.Damaged(string(kv.Key), err)
			}
		}
		if !page.More {
			return nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

func (w *walk) page(ctx context.Context, from, end string) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	page, err := w.Client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(w.revision), clientv3.WithLimit(defaultPage))
	switch {
	case is(err, rpctypes.ErrCompacted):
		return nil, ErrExpired
	case err != nil:
		return nil, fmt.Errorf("%w: read %s: %w", ErrUnavailable, from, err)
	}
	if w.revision == 0 {
		w.revision = page.Header.Revision
	}
	return page, nil
}

func (w *walk) pool(kv *mvccpb.KeyValue) error {
	key := string(kv.Key)
	n, err := w.keys.parse(key)
	if err != nil {
		return err
	}
	p, err := decodePool(key, n.pool, kv.Value)
	if err == nil {
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
			return err
		}
		for _, h := range r.holdings {
			w.visitor.Block(r.block(h))
		}
	default:
		return fmt.Errorf("key %s: it is neither a head nor a block", key)
	}
	return nil
}

func (w *walk) claim(kv *mvccpb.KeyValue) error {
	key := string(kv.Key)
	var v claimValue
	if err := decode(key, kv.Value, &v); err != nil {
		return err
	}
	w.visitor.Claim(ClaimID(strings.TrimPrefix(key, w.keys.claim(""))), v.Space, v.Prefix)
	return nil
}
