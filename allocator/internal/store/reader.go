package store

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/kcp-ipam/ipam/allocator/ledger"
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
// in the order of their addresses and the space's head, then all claims, then the tenures that
// have ended, bucket by bucket, and those of a block in the order of time. Its functions are called one at a time. All fields are required.
type Visitor struct {
	Pool func(ledger.Pool)
	// Block is called once for each holder of a block.
	Block func(ledger.Block)
	// Head says that a space has one.
	Head func(ledger.SpaceID)
	// Claim says where the key of a claim leads.
	Claim func(ledger.ClaimID, ledger.SpaceID, netip.Prefix)
	// Tenure is called once for each tenure of the history.
	Tenure func(ledger.Tenure)
	// Damaged names a key that cannot be read, and why.
	Damaged func(key string, err error)
	// Unread names a block that is there, and whose key was Damaged.
	Unread func(ledger.SpaceID, netip.Prefix)
}

// Walk tells the visitor the whole ledger as of one revision, which it returns,
// and reads it page by page. Nothing is checked that the keys do not say of
// themselves. ErrExpired: the walk took longer than etcd keeps history.
func (r Reader) Walk(ctx context.Context, visitor Visitor) (revision int64, err error) {
	s := NewStore(r.Client, r.Prefix)
	w, pages := walk{visitor: visitor, keys: s.Keys}, s.NewPager(0)
	for _, part := range []struct {
		prefix string
		visit  func(*mvccpb.KeyValue) error
	}{
		{w.keys.pools(), w.pool},
		{w.keys.Spaces(), w.space},
		{w.keys.Claim(""), w.claim},
		{w.keys.History(), w.tenure},
	} {
		pages.Windows = Windows(w.keys, w.pools, false)
		for kv, err := range pages.Keys(ctx, part.prefix, clientv3.GetPrefixRangeEnd(part.prefix)) {
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
	keys    Keys
	pools   []ledger.Pool // told so far
}

func (w *walk) pool(kv *mvccpb.KeyValue) error {
	e := EntryOf(w.keys, kv)
	if e.Damage == nil {
		w.pools = append(w.pools, e.Registered)
		w.visitor.Pool(e.Registered)
	}
	return e.Damage
}

func (w *walk) space(kv *mvccpb.KeyValue) error {
	e := EntryOf(w.keys, kv)
	switch {
	case e.Damage != nil:
		if e.Kind == BlockKey && e.Prefix.IsValid() {
			w.visitor.Unread(e.Space, e.Prefix)
		}
		return e.Damage
	case e.Kind == HeadKey:
		w.visitor.Head(e.Space)
	case e.Kind == BlockKey:
		for _, h := range e.Block.Holdings {
			w.visitor.Block(e.Block.Block(h))
		}
	case e.Kind != WaitersKey:
		return fmt.Errorf("key %s: it is neither a head, a block nor the mark of waiters", e.Text)
	}
	return nil
}

func (w *walk) tenure(kv *mvccpb.KeyValue) error {
	tenures, err := w.keys.DecodeTenures(kv)
	for _, t := range tenures {
		w.visitor.Tenure(t)
	}
	return err
}

func (w *walk) claim(kv *mvccpb.KeyValue) error {
	space, p, err := DecodeClaim(kv)
	if err == nil {
		w.visitor.Claim(ledger.ClaimID(strings.TrimPrefix(string(kv.Key), w.keys.Claim(""))), space, p)
	}
	return err
}
