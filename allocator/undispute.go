package allocator

import (
	"context"
	"errors"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// releaseDisputed takes one holder from a disputed block. Where one holder is left, the
// dispute is over.
func (a *Allocator) releaseDisputed(ctx context.Context, b Block, cause Cause) error {
	uncertain, parting := false, a.farewell(b, cause)
	for {
		r, ok, err := a.store.RecordAt(ctx, b.Space, b.Prefix)
		switch {
		case err != nil:
			return err
		case uncertain && (!ok || r.Of(b.Holder.Claim) < 0):
			return nil
		case !ok || r.Revision != b.Revision || r.Of(b.Holder.Claim) < 0:
			return ErrChanged
		}
		o := &undispute{block: b, seen: r, farewell: parting}
		if err = o.findUndisputed(ctx, a); err != nil {
			return err
		}
		if o.head, o.next, err = a.flagInParts(ctx, b.Pool, o.head, o.next); err == nil {
			err = a.change(ctx, b, o)
		}
		if !errors.Is(err, engine.ErrStale) {
			return err
		}
		uncertain = uncertain || o.uncertain
	}
}

// undispute is the op that takes one holder from a disputed block.
type undispute struct {
	block     Block
	farewell  farewell
	seen      store.Record   // the block as it is
	head      int64          // as of which all of this is so
	rest      store.Record   // the block without the holder
	next      []store.Record // others, that are in dispute no longer
	frees     bool           // no holder is left
	uncertain bool
}

// findUndisputed finds out what is no longer in dispute without the holder.
func (o *undispute) findUndisputed(ctx context.Context, a *Allocator) error {
	near, head, err := a.store.Overlapping(ctx, o.seen.Space, o.seen.Prefix)
	if err == nil {
		err = a.engine.Await(ctx, head)
	}
	if err != nil {
		return err
	}
	o.head, o.rest = head, o.seen
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
			others, _, err := a.store.Overlapping(ctx, n.Space, n.Prefix)
			if err != nil {
				return err
			}
			still = len(others) > 2 // itself, and the one that goes
		}
		if !still {
			n.Disputed = false
			o.next = append(o.next, n)
		}
	}
	return nil
}

// nested tells of each record whether it lies in another or another in it. They are in
// the order of their addresses, and of those that cover each other the larger is first.
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
	if s.Head.Revision != o.head {
		return engine.Share{}, engine.ErrStale
	}
	keys, key := s.Engine.Keys, s.Engine.Keys.Block(s.ID, o.block.Prefix)
	change := store.Remove(key)
	if !o.frees {
		change = store.Put(key, o.rest.Encode())
	}
	sh := engine.Share{
		Ifs:      store.Cmps(store.At(key, o.seen.Revision)),
		Then:     store.Ops(change, store.Remove(keys.Claim(o.block.Holder.Claim))),
		Farewell: o.farewell.record,
	}
	for _, r := range o.next {
		sh.Then = append(sh.Then, store.Put(keys.Block(s.ID, r.Prefix), r.Encode()))
	}
	return sh, nil
}

func (o *undispute) Won(s *engine.Worker, revision int64, _ store.Results) error {
	s.Engine.Metrics.Released.Inc()
	for _, r := range o.next {
		s.Reconcile(r)
	}
	switch {
	case o.frees:
		s.Removed(o.block.Prefix, revision)
	case revision > s.Known:
		s.SetOwners(o.block.Prefix, space.OwnersOf(o.rest))
	}
	if !o.frees {
		s.Reconcile(o.rest)
	}
	return nil
}

func (o *undispute) Lost(_ *engine.Worker, why engine.Loss) error {
	o.uncertain = why.Kind == engine.Unanswered
	return engine.ErrStale
}

// flagInParts writes records, of which only the dispute has changed, until one
// transaction carries the rest, and returns that. All of it is as of a revision of the
// head, and then as of the one returned; errMoved: others have written since.
func (a *Allocator) flagInParts(ctx context.Context, id PoolID, head int64, records []store.Record) (int64, []store.Record, error) {
	for {
		part := a.part(records)
		if len(part) == len(records) {
			return head, records, nil
		}
		f := &flag{head: head, records: part}
		if err := a.engine.Submit(ctx, id, f); err != nil {
			return head, nil, err
		}
		head, records = f.head, records[len(part):]
	}
}

// part is as many of the first records as one transaction carries beside an op's own keys.
func (a *Allocator) part(records []store.Record) []store.Record {
	const own = 8
	bytes := 0
	for i, r := range records {
		if bytes += len(r.Encode()); i >= max(1, int(a.engine.Limit.Load())-own) || bytes > engine.MaxGroupBytes {
			return records[:i]
		}
	}
	return records
}

// flag is the op that writes a part of them.
type flag struct {
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
		sh.Then = append(sh.Then, store.Put(s.Engine.Keys.Block(s.ID, r.Prefix), r.Encode()))
	}
	return sh, nil
}

func (f *flag) Won(s *engine.Worker, revision int64, _ store.Results) error {
	f.head = revision
	for _, r := range f.records {
		s.Reconcile(r)
	}
	return nil
}

func (f *flag) Lost(*engine.Worker, engine.Loss) error { return engine.ErrStale }
