package allocator

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ListOptions say which blocks to list. The zero value lists all.
type ListOptions struct {
	// Pool limits the list to the blocks of one pool.
	Pool ledger.PoolID
	// Limit ends the list when this many blocks were read. Blocks of other pools count, too, if they lie among the
	// addresses of Pool. 0: there is no limit.
	Limit int
	// After begins the list behind a place, such as that of the last block of an earlier list. The zero Position begins it
	// at the first block.
	After ledger.Position
}

// List yields blocks in the order of spaces and addresses, as the ledger is when the list
// begins. A block that cannot be read is yielded as an error for which Unreadable holds,
// and the list goes on behind it. Any other error ends the list.
func (a *Allocator) List(ctx context.Context, o ListOptions) iter.Seq2[ledger.Block, error] {
	return func(yield func(ledger.Block, error) bool) {
		from, end, err := o.keys(ctx, a)
		if err != nil {
			yield(ledger.Block{}, err)
			return
		}
		p, read := a.store.NewPager(0), 0
		survey(p, a.engine)
		if o.Limit > 0 {
			p.Size = min(o.Limit, p.Size)
		}
		for kv, err := range p.Keys(ctx, from, end) {
			if err != nil {
				yield(ledger.Block{}, err)
				return
			}
			if !o.yield(a.keys, kv, yield) {
				return
			}
			if read++; read == o.Limit {
				return
			}
		}
	}
}

// keys returns the range of keys to list.
func (o ListOptions) keys(ctx context.Context, a *Allocator) (from, end string, err error) {
	from, end = a.keys.Spaces(), clientv3.GetPrefixRangeEnd(a.keys.Spaces())
	if o.Pool != "" {
		p, err := a.engine.Known(ctx, o.Pool)
		if err != nil {
			return "", "", err
		}
		from, end = a.keys.Space(p.Space).Within(p.CIDR)
	}
	if o.After != (ledger.Position{}) {
		from = max(from, a.keys.Space(o.After.Space).Block(o.After.Prefix)+"\x00")
	}
	return from, end, nil
}

// ChangedBlocks returns the blocks that have changed since the last call, by their places. A block without a holder is
// free. The first call returns none, and begins to note them. Some may be missing: List has all. Only one caller may
// use it.
func (a *Allocator) ChangedBlocks() map[ledger.Position]ledger.Block {
	changed := map[ledger.Position]ledger.Block{}
	for at, r := range a.table.Journal.Take() {
		changed[at] = r.Block()
	}
	return changed
}

// yield yields the block of a key, unless it is of another pool than the listed one. It reports whether to go on.
func (o ListOptions) yield(keys store.Keys, kv *mvccpb.KeyValue, yield func(ledger.Block, error) bool) bool {
	if b, ok := store.DecodeSole(keys, kv); ok {
		return o.Pool != "" && b.Pool != o.Pool || yield(b, nil)
	}
	e := store.EntryOf(keys, kv)
	switch {
	case e.Kind != store.BlockKey:
		return true
	case e.Damage != nil:
		return yield(ledger.Block{}, e.Damage)
	}
	b := e.Block.Block()
	return o.Pool != "" && b.Pool != o.Pool || yield(b, nil)
}

// survey tells a pager where blocks are dense, as of memory: it cuts a list of all blocks into
// parts of about a page, and adds the windows that have more than that.
func survey(p *store.Pager, eng *engine.Engine) {
	spaces := eng.Spaces.All()
	slices.SortFunc(spaces, func(s, t *engine.Space) int { return cmp.Compare(s.Keys.Blocks(), t.Keys.Blocks()) })
	sum := 0
	for _, s := range spaces {
		var blocks int
		var large []ledger.Pool
		s.Read(func() { blocks, large = s.Blocks.Len(), larger(s.Room.Pools, p.Fit) })
		if sum += blocks; sum <= p.Fit {
			continue
		}
		p.Cuts, sum = append(p.Cuts, s.Keys.Blocks()), blocks
		for _, w := range store.Windows(eng.Keys, large, true) {
			p.Windows, sum = append(p.Windows, w), 0
		}
	}
}

// larger returns the pools that have more blocks in their windows than a page.
func larger(pools space.Pools, page int) (large []ledger.Pool) {
	for _, p := range pools {
		if p.Index.Blocks() > page {
			large = append(large, p.Pool)
		}
	}
	return large
}
