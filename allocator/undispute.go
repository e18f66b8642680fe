package allocator

import (
	"context"
	"errors"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// releaseDisputed takes one holder from a disputed block. Where one holder is left, the
// dispute is over.
func (a *Allocator) releaseDisputed(ctx context.Context, b Block, cause Cause) error {
	uncertain, parting := false, a.terms.farewell(b, cause)
	for attempts := pace(0); ; {
		r, ok, err := a.store.RecordAt(ctx, b.Space, b.Prefix)
		switch {
		case err != nil:
			return err
		case uncertain && (!ok || r.Of(b.Holder.Claim) < 0):
			return nil
		case !ok || r.Revision != b.Revision || r.Of(b.Holder.Claim) < 0:
			return ErrChanged
		}
		o, err := a.undispute(ctx, b, r, parting)
		if err == nil {
			err = a.engine.Change(ctx, b, o)
		}
		if !errors.Is(err, engine.ErrStale) {
			return err
		}
		uncertain = uncertain || o.uncertain
		if err := attempts.wait(ctx); err != nil {
			return err
		}
	}
}

// undispute makes the op that takes one holder from a disputed block, which is as it was seen. ErrStale:
// others have written since.
func (a *Allocator) undispute(ctx context.Context, b Block, seen store.Record, parting farewell) (*undispute, error) {
	o := &undispute{block: b, seen: seen, farewell: parting}
	err := o.findUndisputed(ctx, a)
	if err == nil {
		err = o.flagInParts(ctx, a.engine)
	}
	return o, err
}

// flagInParts writes some of the next records before, where they are too many for one transaction.
func (o *undispute) flagInParts(ctx context.Context, eng *engine.Engine) (err error) {
	read, all := o.near.head, o.next
	o.near.head, o.next, err = flagInParts(ctx, eng, flag{pool: o.block.Pool, head: read, records: all})
	o.parted = len(o.next) < len(all)
	for i := range o.beyond {
		if o.parted && o.beyond[i].head == read { // nobody else has written since
			o.beyond[i].head = o.near.head
		}
	}
	return err
}

// undispute is the op that takes one holder from a disputed block.
type undispute struct {
	block     Block
	farewell  farewell
	seen      store.Record   // the block as it is
	near      neighbours     // the blocks that overlap it, itself included
	beyond    []neighbours   // those that overlap one of these, where they decide
	parted    bool           // some of next were written before
	rest      store.Record   // the block without the holder
	next      []store.Record // other blocks, which are in dispute no longer
	frees     bool           // no holder is left
	uncertain bool
}

// findUndisputed finds the blocks that are no longer in dispute without the holder.
func (o *undispute) findUndisputed(ctx context.Context, a *Allocator) error {
	near, head, err := a.store.Overlapping(ctx, o.seen.Space, o.seen.Prefix)
	if err == nil {
		err = a.engine.Await(ctx, head)
	}
	if err != nil {
		return err
	}
	o.near, o.rest = neighbours{o.seen.Prefix, o.block.Pool, slices.Clone(near), head}, o.seen
	mine := o.seen.Of(o.block.Holder.Claim)
	o.rest.Holdings = slices.Delete(slices.Clone(o.seen.Holdings), mine, mine+1)
	o.frees = len(o.rest.Holdings) == 0
	near = slices.DeleteFunc(near, func(n store.Record) bool { return n.Prefix == o.seen.Prefix })
	if !o.frees {
		o.rest.Disputed = len(o.rest.Holdings) > 1 || len(near) > 0
		return nil
	}
	nested := nested(near)
	for i, n := range near {
		still := len(n.Holdings) > 1 || nested[i]
		if !still && n.Prefix.Bits() < o.seen.Prefix.Bits() {
			// It reaches beyond, to others that are not near.
			others, head, err := a.store.Overlapping(ctx, n.Space, n.Prefix)
			if err == nil {
				err = a.engine.Await(ctx, head)
			}
			if err != nil {
				return err
			}
			o.beyond = append(o.beyond, neighbours{n.Prefix, n.Holdings[0].Pool, others, head})
			still = len(others) > 2 // itself, and the one that goes
		}
		if !still {
			n.Disputed = false
			o.next = append(o.next, n)
		}
	}
	return nil
}

// nested reports for each record whether it lies in another one, or another one in it. The records
// are in the order of their addresses, and one comes before those inside it.
func nested(records []store.Record) []bool {
	is := make([]bool, len(records))
	var covering []int // those that the next may lie in, the smallest last
	for i, r := range records {
		for len(covering) > 0 && !records[covering[len(covering)-1]].Prefix.Overlaps(r.Prefix) {
			covering = covering[:len(covering)-1]
		}
		if len(covering) > 0 {
			is[i], is[covering[len(covering)-1]] = true, true
		}
		covering = append(covering, i)
	}
	return is
}

func (o *undispute) Cluster() ClusterName   { return o.block.Holder.Cluster }
func (o *undispute) Claim() (ClaimID, bool) { return "", false }

func (o *undispute) Plan(s *engine.Worker) (engine.Share, error) {
	same, err := o.same(s)
	if err != nil {
		return engine.Share{}, err
	}
	keys, key := s.Keys, s.Keys.Block(o.block.Prefix)
	change := store.Remove(key)
	if !o.frees {
		change = store.Put(key, o.rest.Encode())
	}
	sh := engine.Share{
		Ifs:      append(same, store.At(key, o.seen.Revision)),
		Then:     store.Ops(change, store.Remove(keys.Claim(o.block.Holder.Claim))),
		Farewell: o.farewell.record,
	}
	for _, r := range o.next {
		sh.Then = append(sh.Then, store.Put(keys.Block(r.Prefix), r.Encode()))
	}
	return sh, nil
}

// same is what the transaction compares of the blocks around. What was written in parts is not as it was read: then
// only the head tells.
func (o *undispute) same(s *engine.Worker) (ifs []clientv3.Cmp, err error) {
	if o.parted && s.Head.Revision != o.near.head {
		return nil, engine.ErrStale
	}
	for _, n := range append(slices.Clip(o.beyond), o.near) {
		same, err := n.same(s)
		if err != nil {
			return nil, err
		}
		ifs = append(ifs, same...)
	}
	if len(ifs) > max(0, int(s.Engine.Limit.Load())-spareOps) {
		return nil, engine.ErrStale
	}
	return ifs, nil
}

func (o *undispute) Won(s *engine.Worker, revision int64, _ store.Results) error {
	s.Engine.Metrics.Released.Inc()
	for _, r := range o.next {
		s.News.Reconcile(r)
	}
	if o.frees {
		s.Removed(o.block.Prefix, revision)
		return nil
	}
	s.Put(o.block.Prefix, o.rest, revision)
	s.News.Reconcile(o.rest)
	return nil
}

func (o *undispute) Lost(_ *engine.Worker, why engine.Loss) error {
	o.uncertain = why.Kind == engine.Unanswered
	return engine.ErrStale
}

// flagInParts writes records whose dispute has changed, until one transaction can carry the
// rest, and returns that. all.head is the revision of the head as of which they were read. head is
// the one as of which the rest can be written. ErrStale: others have written since.
func flagInParts(ctx context.Context, eng *engine.Engine, all flag) (head int64, rest []store.Record, err error) {
	for {
		part := all
		part.records = firstPart(all.records, int(eng.Limit.Load()))
		if len(part.records) == len(all.records) {
			return all.head, all.records, nil
		}
		if err := eng.Submit(ctx, all.pool, &part); err != nil {
			return all.head, nil, err
		}
		all.head, all.records = part.head, all.records[len(part.records):]
	}
}

// firstPart is as many of the first records as one transaction carries beside an op's own keys.
func firstPart(records []store.Record, limit int) []store.Record {
	const own = 8
	bytes := 0
	for i, r := range records {
		if bytes += len(r.Encode()); i >= max(1, limit-own) || bytes > engine.MaxGroupBytes {
			return records[:i]
		}
	}
	return records
}

// flag is the op that writes some of the records.
type flag struct {
	pool    PoolID
	records []store.Record
	head    int64
}

func (f *flag) Cluster() ClusterName   { return f.records[0].Holdings[0].Cluster }
func (f *flag) Claim() (ClaimID, bool) { return "", false }

func (f *flag) Plan(s *engine.Worker) (engine.Share, error) {
	if s.Head.Revision != f.head {
		return engine.Share{}, engine.ErrStale
	}
	var sh engine.Share
	for _, r := range f.records {
		sh.Then = append(sh.Then, store.Put(s.Keys.Block(r.Prefix), r.Encode()))
	}
	return sh, nil
}

func (f *flag) Won(s *engine.Worker, revision int64, _ store.Results) error {
	f.head = revision
	for _, r := range f.records {
		s.News.Reconcile(r)
	}
	return nil
}

func (f *flag) Lost(*engine.Worker, engine.Loss) error { return engine.ErrStale }
