package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// A cooling block goes back at once to a claim with the name of its former holder. That is an
// ordinary bind, whose transaction replaces the block's value, and the key of the former claim by
// that of the new one.

// errTwice: another call of the group writes a key that the op has to write. The next group
// takes it.
var errTwice = errors.New("the block or its former claim is in the same transaction")

// takeFormer is the share of a bind that gets a cooling block back. What cools is as the head
// says, and needs no comparison of its own.
func (b *bind) takeFormer(s *engine.Worker) (engine.Share, error) {
	keys, claim := s.Keys, b.request.Holder.Claim
	if _, twice := s.Placing.Blocks[b.prefix]; twice {
		return engine.Share{}, errTwice
	}
	sh, former := engine.Share{Els: store.Ops(store.Get(keys.Claim(claim)))}, b.former.Claim
	if former == claim {
		sh.Then = store.Ops(store.Put(keys.Block(b.prefix), b.formerValue()))
		b.former.Taken = true
		return sh, nil
	}
	if _, twice := s.Placing.Claims[former]; twice {
		return engine.Share{}, errTwice
	}
	sh.Ifs = store.Cmps(store.Absent(keys.Claim(claim)))
	sh.Then = store.Ops(
		store.Put(keys.Block(b.prefix), b.formerValue()),
		store.Put(keys.Claim(claim), store.EncodeClaim(s.ID, b.prefix)),
		store.Remove(keys.Claim(former)),
	)
	b.former.Taken = true
	return sh, nil
}

// formerValue is the block as it is given back. Its history has no gap: the holder has it from when
// the former one let go. A reservation keeps in mind until when it
// would cool: its CREATE may fail.
func (b *bind) formerValue() string {
	b.record.Holdings[0].Since = b.former.Freed()
	if b.request.reserves {
		b.record.Holdings[0].Until = b.former.End()
	}
	return b.record.Encode()
}

// Changes is the block that a bind gets back; not valid for any other.
func (b *bind) Changes() netip.Prefix {
	if b.former == nil {
		return netip.Prefix{}
	}
	return b.prefix
}

// From is the claim whose key goes with a bind that gets its block back; empty for any other.
func (b *bind) From() ClaimID {
	if b.former == nil || b.former.Claim == b.request.Holder.Claim {
		return ""
	}
	return b.former.Claim
}

// cools is asked by a bind whose claim seems to have a block and has none. It waits until a
// block that cools under the claim's ID is known here, and fails if it is, and is not what
// the claim asks for: a claim has one block at most. A claim whose block was freed is gone,
// as a rule, and a cache shows it still.
func (a *Allocator) cools(ctx context.Context, b Block, last *int64) error {
	switch {
	case b.State != Cooling:
		return nil
	case b.Revision == *last:
		return fmt.Errorf("%w: %s until %s", ErrCools, b.Prefix, b.Until.Format(time.RFC3339))
	}
	*last = b.Revision
	return a.engine.Await(ctx, b.Revision)
}

// Regains reports whether a request would get a cooling block of its pool back, as known
// here: one that an object of the holder's name had before.
func (a *Allocator) Regains(r Request) (regains bool) {
	a.table.Visit(r.Pool, func(p *space.Pool) {
		if p.State == PoolOpen && p.In.Room.Pools.Frozen() == space.NotFrozen {
			_, regains = p.FormerBlock(r)
		}
	})
	return regains
}
