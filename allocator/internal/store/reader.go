package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Reader reads a ledger without taking part in it: it writes nothing, and keeps nothing. Safe for concurrent use.
type Reader struct {
	Client *clientv3.Client
	// Prefix of all keys, as in Options. Default "/ipam/v1".
	Prefix string
}

// Walk calls the visitor with the whole ledger as of one revision, which it returns. It
// reads page by page, and checks each key by itself only. ErrExpired: the walk took longer
// than etcd keeps its revisions.
func (r Reader) Walk(ctx context.Context, visitor ledger.Visitor) (revision int64, err error) {
	s := NewStore(r.Client, r.Prefix)
	w, pages := walk{visitor: visitor, keys: s.Keys, pools: newRoll(s.Keys)}, s.NewPager(0)
	for _, part := range []struct {
		prefix string
		visit  func(*mvccpb.KeyValue) error
	}{
		{w.keys.pools(), w.pool},
		{w.keys.Spaces(), w.space},
		{w.keys.Claim(""), w.claim},
		{w.keys.History(), w.tenure},
	} {
		pages.Windows = Windows(w.keys, w.pools.all(), false)
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
	visitor ledger.Visitor
	keys    Keys
	pools   roll
}

func (w *walk) pool(kv *mvccpb.KeyValue) error {
	e := w.pools.entry(kv)
	if e.Damage == nil {
		w.visitor.Pool(*e.Registered)
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
		w.visitor.Block(e.Block.Block())
	default:
		return fmt.Errorf("key %s: it is neither a head nor a block", e.Text)
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
