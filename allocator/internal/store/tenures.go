package store

import (
	"context"
	"iter"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Tenures calls visit for the tenures of the blocks that overlap a prefix, as of one revision, which it returns. The
// zero Prefix stands for all blocks. Tenures that have ended come first, those of a block in the order of time. A
// cooling block has no holder, and so no tenure that lasts. For a key that cannot be read, visit gets an error for
// which Unreadable holds. If visit returns false, Tenures ends.
//
// For a prefix, Tenures reads only the buckets and the blocks that may overlap it, however long the history is. For the
// zero Prefix it reads the whole history and all blocks, in pages. If a pool is gone, its name and scope come from the
// history. ErrExpired: reading took longer than etcd keeps its revisions.
func (r Reader) Tenures(
	ctx context.Context, p netip.Prefix, visit func(ledger.Tenure, error) bool,
) (revision int64, err error) {
	s := NewStore(r.Client, r.Prefix)
	l := lookback{pages: s.NewPager(0), prefix: p, visit: visit, roll: newRoll(s.Keys)}
	for _, read := range []func(context.Context) error{l.ended, l.pools, l.lasting} {
		if err := read(ctx); err != nil || l.over {
			return l.pages.revision, err
		}
	}
	return l.pages.revision, nil
}

// name returns the tenure with the name and the scope of its pool, if these are known. They never change.
func (r roll) name(t ledger.Tenure) ledger.Tenure {
	if p, ok := r.known[t.Pool]; ok {
		return t.In(p)
	}
	return t
}

// call reads the pools as of the pager's revision. It leaves out pools that cannot be read.
func (s *Store) call(ctx context.Context, pages *Pager) (roll, error) {
	pools, all := newRoll(s.Keys), spanOf(s.Keys.pools())
	for kv, err := range pages.Keys(ctx, all.from, all.end) {
		if err != nil {
			return pools, err
		}
		pools.entry(kv)
	}
	return pools, nil
}

// lookback is one call of Tenures.
type lookback struct {
	pages  *Pager
	prefix netip.Prefix
	visit  func(ledger.Tenure, error) bool
	roll
	spaces map[ledger.SpaceID]int // spaces with pools over the prefix, and the shortest length of these pools' CIDRs
	over   bool                   // the visitor has seen enough
}

// each visits the keys of some ranges, until the visitor has seen enough.
func (l *lookback) each(ctx context.Context, spans []span, visit func(*mvccpb.KeyValue)) error {
	for _, s := range spans {
		for kv, err := range l.pages.Keys(ctx, s.from, s.end) {
			if err != nil {
				return err
			}
			if visit(kv); l.over {
				return nil
			}
		}
	}
	return nil
}

func (l *lookback) tell(t ledger.Tenure, err error) {
	// Between the keys of one family of addresses, there may be keys of the other family.
	if err == nil && l.prefix.IsValid() && !l.prefix.Overlaps(t.Prefix) {
		return
	}
	l.over = !l.visit(t, err)
}

func (l *lookback) ended(ctx context.Context) error {
	return l.each(ctx, l.keys.historyOver(l.prefix), l.chapter)
}

// chapter visits the tenures of a key of the history.
func (l *lookback) chapter(kv *mvccpb.KeyValue) {
	tenures, err := l.keys.DecodeTenures(kv)
	if err != nil {
		l.tell(ledger.Tenure{}, err)
	}
	for _, t := range tenures {
		if !l.over {
			l.tell(t, nil)
		}
	}
}

// pools finds the spaces that may have blocks over the prefix.
func (l *lookback) pools(ctx context.Context) error {
	l.spaces = map[ledger.SpaceID]int{}
	return l.each(ctx, []span{spanOf(l.keys.pools())}, func(kv *mvccpb.KeyValue) {
		e := l.entry(kv)
		if e.Damage != nil {
			l.tell(ledger.Tenure{}, e.Damage)
			return
		}
		p := *e.Registered
		if !l.prefix.IsValid() || !p.CIDR.Overlaps(l.prefix) {
			return
		}
		shortest, ok := l.spaces[p.Space]
		if !ok || p.CIDR.Bits() < shortest {
			l.spaces[p.Space] = p.CIDR.Bits()
		}
	})
}

// lasting visits the tenures of the blocks that have a holder now.
func (l *lookback) lasting(ctx context.Context) error {
	l.pages.Windows = Windows(l.keys, l.all(), false)
	if !l.prefix.IsValid() {
		return l.each(ctx, []span{spanOf(l.keys.Spaces())}, l.block)
	}
	for id, shortest := range l.spaces {
		if err := l.each(ctx, l.keys.Space(id).blocksOver(l.prefix, shortest), l.block); err != nil || l.over {
			return err
		}
	}
	return nil
}

// block visits the tenure of a block's present holder.
func (l *lookback) block(kv *mvccpb.KeyValue) {
	e := EntryOf(l.keys, kv)
	if e.Kind != BlockKey {
		return
	}
	if e.Damage != nil {
		l.tell(ledger.Tenure{}, e.Damage)
		return
	}
	if b := e.Block.Block(); b.State != ledger.Cooling && !l.over {
		l.tell(l.name(b.Tenure()), nil)
	}
}

// HistoryKeys yields the keys of the history, page by page. After an error it ends. ErrExpired: reading took longer
// than etcd keeps its revisions.
func (s *Store) HistoryKeys(ctx context.Context) iter.Seq2[*mvccpb.KeyValue, error] {
	all := spanOf(s.Keys.History())
	return s.NewPager(0).Keys(ctx, all.from, all.end)
}
