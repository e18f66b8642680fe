package allocator

import (
	"context"
	"errors"
	"slices"
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
		case uncertain && (!ok || r.of(b.Holder.Claim) < 0):
			return nil
		case !ok || r.revision != b.Revision || r.of(b.Holder.Claim) < 0:
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
	seen      record   // the block as it is
	head      int64    // as of which all of this is so
	rest      record   // the block without the holder
	next      []record // others, that are in dispute no longer
	frees     bool     // no holder is left
	uncertain bool
}

// weigh finds out what is no longer in dispute without the holder.
func (o *concession) weigh(ctx context.Context, a *Allocator) error {
	near, head, err := a.store.Overlapping(ctx, o.seen.space, o.seen.prefix)
	if err == nil {
		err = a.await(ctx, head)
	}
	if err != nil {
		return err
	}
	o.head, o.rest = head, o.seen
	mine := o.seen.of(o.block.Holder.Claim)
	o.rest.holdings = slices.Delete(slices.Clone(o.seen.holdings), mine, mine+1)
	o.frees = len(o.rest.holdings) == 0
	near = slices.DeleteFunc(near, func(n record) bool { return n.prefix == o.seen.prefix })
	if !o.frees {
		o.rest.disputed = len(o.rest.holdings) > 1 || len(near) > 0
		return nil
	}
	nested := nested(near)
	for i, n := range near {
		still := len(n.holdings) > 1 || nested[i]
		if !still && n.prefix.Bits() < o.seen.prefix.Bits() {
			// It reaches beyond, to others that are not near.
			others, _, err := a.store.Overlapping(ctx, n.space, n.prefix)
			if err != nil {
				return err
			}
			still = len(others) > 2 // itself, and the one that goes
		}
		if !still {
			n.disputed = false
			o.next = append(o.next, n)
		}
	}
	return nil
}

// nested tells of each record whether it lies in another or another in it. They are in
// the order of their addresses, and of those that cover each other the larger is first.
func nested(records []record) []bool {
	is := make([]bool, len(records))
	var covering []int // those that the next may lie in, the smallest last
	for i, r := range records {
		for len(covering) > 0 && !records[covering[len(covering)-1]].prefix.Overlaps(r.prefix) {
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

func (o *concession) place(s *space) (share, error) {
	if s.head.revision != o.head {
		return share{}, errMoved
	}
	keys, key := s.alloc.keys, s.alloc.keys.block(s.id, o.block.Prefix)
	change := remove(key)
	if !o.frees {
		change = put(key, o.rest.encode())
	}
	sh := share{
		ifs:  every(at(key, o.seen.revision)),
		then: together(change, remove(keys.claim(o.block.Holder.Claim))),
	}
	for _, r := range o.next {
		sh.then = append(sh.then, put(keys.block(s.id, r.prefix), r.encode()))
	}
	return sh, nil
}

func (o *concession) won(s *space, revision int64, _ results) error {
	s.alloc.metrics.released.Inc()
	for _, r := range o.next {
		s.reconcile(r)
	}
	switch {
	case o.frees:
		s.freed(o.block.Prefix, revision)
	case revision > s.known:
		s.own(o.block.Prefix, ownersOf(o.rest))
	}
	if !o.frees {
		s.reconcile(o.rest)
	}
	return nil
}

// reconcile has the holder woken whose block is in dispute no longer.
func (s *space) reconcile(r record) {
	if !r.disputed {
		s.woken = append(s.woken, r.block(r.holdings[0]).Holder)
	}
}

func (o *concession) lost(_ *space, why loss) error {
	o.uncertain = why.kind == unanswered
	return errMoved
}

// flagInParts writes records, of which only the dispute has changed, until one
// transaction carries the rest, and returns that. All of it is as of a revision of the
// head, and then as of the one returned; errMoved: others have written since.
func (a *Allocator) flagInParts(ctx context.Context, id PoolID, head int64, records []record) (int64, []record, error) {
	for {
		part := a.part(records)
		if len(part) == len(records) {
			return head, records, nil
		}
		f := &flag{head: head, records: part}
		if err := a.submit(ctx, id, f); err != nil {
			return head, nil, err
		}
		head, records = f.head, records[len(part):]
	}
}

// part is as many of the first records as one transaction carries beside an op's own keys.
func (a *Allocator) part(records []record) []record {
	const own = 8
	bytes := 0
	for i, r := range records {
		if bytes += len(r.encode()); i >= max(1, int(a.limit.Load())-own) || bytes > maxGroupBytes {
			return records[:i]
		}
	}
	return records
}

// flag is the op that writes a part of them.
type flag struct {
	records []record
	head    int64
}

func (f *flag) cluster() ClusterName   { return f.records[0].holdings[0].Cluster }
func (f *flag) claim() (ClaimID, bool) { return "", false }

func (f *flag) place(s *space) (share, error) {
	if s.head.revision != f.head {
		return share{}, errMoved
	}
	var sh share
	for _, r := range f.records {
		sh.then = append(sh.then, put(s.alloc.keys.block(s.id, r.prefix), r.encode()))
	}
	return sh, nil
}

func (f *flag) won(s *space, revision int64, _ results) error {
	f.head = revision
	for _, r := range f.records {
		s.reconcile(r)
	}
	return nil
}

func (f *flag) lost(*space, loss) error { return errMoved }
