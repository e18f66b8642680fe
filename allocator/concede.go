package allocator

import (
	"context"
	"errors"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// concede takes one holder from a disputed block. Where one holder is left, the
// dispute is over.
func (a *Allocator) concede(ctx context.Context, b Block) error {
	uncertain := false
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
		o := &concession{block: b, seen: r}
		if err = o.weigh(ctx, a); err != nil {
			return err
		}
		if o.head, o.next, err = a.flagInParts(ctx, b.Pool, o.head, o.next); err == nil {
			err = a.change(ctx, b, o)
		}
		if !errors.Is(err, errMoved) {
			return err
		}
		uncertain = uncertain || o.uncertain
	}
}

// concession is the op of a concede.
type concession struct {
	block     Block
	seen      store.Record   // the block as it is
	head      int64          // as of which all of this is so
	rest      store.Record   // the block without the holder
	next      []store.Record // others, that are in dispute no longer
	frees     bool           // no holder is left
	uncertain bool
}

// weigh finds out what is no longer in dispute without the holder.
func (o *concession) weigh(ctx context.Context, a *Allocator) error {
	near, head, err := a.store.Overlapping(ctx, o.seen.Space, o.seen.Prefix)
	if err == nil {
		err = a.engine.await(ctx, head)
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

func (o *concession) cluster() ClusterName   { return o.block.Holder.Cluster }
func (o *concession) claim() (ClaimID, bool) { return "", false }

func (o *concession) place(s *worker) (share, error) {
	if s.Head.Revision != o.head {
		return share{}, errMoved
	}
	keys, key := s.engine.keys, s.engine.keys.Block(s.ID, o.block.Prefix)
	change := store.Remove(key)
	if !o.frees {
		change = store.Put(key, o.rest.Encode())
	}
	sh := share{
		ifs:  store.Cmps(store.At(key, o.seen.Revision)),
		then: store.Ops(change, store.Remove(keys.Claim(o.block.Holder.Claim))),
	}
	for _, r := range o.next {
		sh.then = append(sh.then, store.Put(keys.Block(s.ID, r.Prefix), r.Encode()))
	}
	return sh, nil
}

func (o *concession) won(s *worker, revision int64, _ store.Results) error {
	s.engine.metrics.released.Inc()
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

func (o *concession) lost(_ *worker, why loss) error {
	o.uncertain = why.kind == unanswered
	return errMoved
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
		if err := a.engine.submit(ctx, id, f); err != nil {
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
		if bytes += len(r.Encode()); i >= max(1, int(a.engine.limit.Load())-own) || bytes > maxGroupBytes {
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

func (f *flag) cluster() ClusterName   { return f.records[0].Holdings[0].Cluster }
func (f *flag) claim() (ClaimID, bool) { return "", false }

func (f *flag) place(s *worker) (share, error) {
	if s.Head.Revision != f.head {
		return share{}, errMoved
	}
	var sh share
	for _, r := range f.records {
		sh.then = append(sh.then, store.Put(s.engine.keys.Block(s.ID, r.Prefix), r.Encode()))
	}
	return sh, nil
}

func (f *flag) won(s *worker, revision int64, _ store.Results) error {
	f.head = revision
	for _, r := range f.records {
		s.Reconcile(r)
	}
	return nil
}

func (f *flag) lost(*worker, loss) error { return errMoved }
