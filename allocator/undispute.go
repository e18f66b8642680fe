package allocator

import (
	"context"
	"errors"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// releaseDisputed takes one holder from a disputed block. Where one holder is left, the
// dispute is over.
func (rc Recovery) releaseDisputed(ctx context.Context, b ledger.Block, cause ledger.Cause) error {
	parting := rc.a.terms.farewell(b, cause)
	for attempts := pace(0); ; {
		r, ok, err := rc.a.store.RecordAt(ctx, b.Space, b.Prefix)
		switch {
		case err != nil:
			return err
		case !ok || r.Revision != b.Revision || r.Of(b.Holder.Claim) < 0:
			return ledger.ErrChanged
		}
		o, err := rc.undispute(ctx, b, r, parting)
		if err == nil {
			_, err = rc.a.engine.Change(ctx, b, engine.Op{Lane: b.Holder.Tenant(), Alone: true, Plan: o.plan})
		}
		if !errors.Is(err, engine.ErrStale) {
			return err
		}
		if err := attempts.wait(ctx); err != nil {
			return err
		}
	}
}

// undispute prepares to take one holder from a disputed block, which is as it was seen. ErrStale:
// others have written since.
func (rc Recovery) undispute(ctx context.Context, b ledger.Block, seen store.Record, parting farewell) (*undispute, error) {
	o := &undispute{block: b, seen: seen, farewell: parting}
	err := o.findUndisputed(ctx, rc.a)
	if err == nil {
		err = o.flagInParts(ctx, rc.a)
	}
	return o, err
}

// flagInParts writes some of the next records before, where they are too many for one transaction.
func (o *undispute) flagInParts(ctx context.Context, a *Allocator) (err error) {
	read, all := o.near.head, o.next
	o.near.head, o.next, err = a.Recovery().flagInParts(ctx, o.block.Pool, read, all)
	o.parted = len(o.next) < len(all)
	for i := range o.beyond {
		if o.parted && o.beyond[i].head == read { // nobody else has written since
			o.beyond[i].head = o.near.head
		}
	}
	return err
}

// undispute takes one holder from a disputed block.
type undispute struct {
	block    ledger.Block
	farewell farewell
	seen     store.Record   // the block as it is
	near     neighbours     // the blocks that overlap it, itself included
	beyond   []neighbours   // those that overlap one of these, where they decide
	parted   bool           // some of next were written before
	rest     store.Record   // the block without the holder
	next     []store.Record // other blocks, which are in dispute no longer
	frees    bool           // no holder is left
}

// findUndisputed finds the blocks that are no longer in dispute without the holder.
func (o *undispute) findUndisputed(ctx context.Context, a *Allocator) error {
	near, head, err := a.store.Overlapping(ctx, o.seen.Space, o.seen.Prefix)
	if err == nil {
		err = a.engine.Watched.Await(ctx, head)
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
				err = a.engine.Watched.Await(ctx, head)
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

func (o *undispute) plan(v space.View) (engine.Plan, error) {
	changes, err := o.same(v)
	if err != nil {
		return engine.Plan{}, err
	}
	block := v.Keys.RemoveBlock(o.block.Prefix)
	if !o.frees {
		block = v.Keys.PutBlock(o.rest, o.rest.Encode())
	}
	changes = append(changes, block.At(o.seen.Revision, engine.ErrStale), v.Keys.RemoveClaim(o.block.Holder.Claim))
	changes = append(changes, store.EndTenure(o.farewell.record)...)
	for _, r := range o.next {
		changes = append(changes, v.Keys.PutBlock(r, r.Encode()))
	}
	return engine.Plan{Changes: eachOnce(changes)}, nil
}

// eachOnce leaves each key in the changes once. A block that is changed may be compared besides, as a neighbour.
func eachOnce(changes []store.Change) []store.Change {
	at := make(map[string]int, len(changes))
	kept := changes[:0]
	for _, c := range changes {
		i, twice := at[c.Key]
		if !twice || c.Tenure != nil {
			at[c.Key] = len(kept)
			kept = append(kept, c)
			continue
		}
		if c.Was == store.Any {
			c = c.At(kept[i].Was, kept[i].Else)
		}
		kept[i] = c
	}
	return kept
}

// same returns the comparisons of the blocks around. Records that were written in parts are not as they were read: then
// only the head tells.
func (o *undispute) same(v space.View) (ifs []store.Change, err error) {
	if o.parted && v.Head().Revision != o.near.head {
		return nil, engine.ErrStale
	}
	for _, n := range append(slices.Clip(o.beyond), o.near) {
		same, err := n.same(v)
		if err != nil {
			return nil, err
		}
		ifs = append(ifs, same...)
	}
	if len(ifs) > max(0, v.Limit-spareOps) {
		return nil, engine.ErrStale
	}
	return ifs, nil
}

// flagInParts writes records whose dispute has changed, until one transaction can carry the
// rest, and returns the rest. The records were read at the head's revision read. The rest can be written at the head's
// revision head. ErrStale: others have written since.
func (rc Recovery) flagInParts(ctx context.Context, id ledger.PoolID, read int64, all []store.Record) (head int64, rest []store.Record, err error) {
	for {
		part := firstPart(all, int(rc.a.engine.Limit.Load()))
		if len(part) == len(all) {
			return read, all, nil
		}
		done, err := rc.a.engine.Submit(ctx, id, engine.Op{Lane: part[0].Holdings[0].Cluster, Alone: true, Plan: flag(part, read)})
		if err != nil {
			return read, nil, err
		}
		read, all = done.Revision, all[len(part):]
	}
}

// firstPart is as many of the first records as one transaction carries beside an op's own keys, one at the least.
func firstPart(records []store.Record, limit int) []store.Record {
	const own = 8
	bytes := 0
	for i, r := range records {
		if bytes += len(r.Encode()); i >= limit-own || bytes > engine.MaxGroupBytes {
			return records[:max(1, i)]
		}
	}
	return records
}

// flag plans to write records that were read as of a revision of the head.
func flag(records []store.Record, read int64) func(space.View) (engine.Plan, error) {
	return func(v space.View) (p engine.Plan, err error) {
		if v.Head().Revision != read {
			return engine.Plan{}, engine.ErrStale
		}
		for _, r := range records {
			p.Changes = append(p.Changes, v.Keys.PutBlock(r, r.Encode()))
		}
		return p, nil
	}
}
