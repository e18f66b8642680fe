package allocator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// A claim with the name of a cooling block's former holder gets the block back at once. That is a
// bind whose transaction replaces the block's value, and replaces the key of the former claim by
// that of the new one.

// errTwice: another call of the group writes a key that the op has to write. The caller makes
// another op.
var errTwice = errors.New("the block or its former claim is in the same transaction")

// takeFormer is the share of a bind that gets a cooling block back. No block that cools can change without
// the head. That the key of its former claim is there shows that memory is right: whatever takes the block
// from that claim removes the key.
func (b *bind) takeFormer(s *engine.Worker) (engine.Share, error) {
	keys, claim := s.Keys, b.request.Holder.Claim
	if _, twice := s.Placing.Blocks[b.prefix]; twice {
		return engine.Share{}, errTwice
	}
	former := b.former.Claim
	sh := engine.Share{Ifs: store.Cmps(store.Present(keys.Claim(former))), Look: []string{keys.Claim(claim), keys.Claim(former)}}
	if former == claim {
		sh.Then = store.Ops(store.Put(keys.Block(b.prefix), b.formerValue()))
		b.former.Taken = true
		return sh, nil
	}
	if _, twice := s.Placing.Claims[former]; twice {
		return engine.Share{}, errTwice
	}
	sh.Ifs = append(sh.Ifs, store.Absent(keys.Claim(claim)))
	sh.Then = store.Ops(
		store.Put(keys.Block(b.prefix), b.formerValue()),
		store.Put(keys.Claim(claim), store.EncodeClaim(s.ID, b.prefix)),
		store.Remove(keys.Claim(former)),
	)
	b.former.Taken = true
	return sh, nil
}

// formerValue is the block as it is given back. Its history has no gap: the new tenure begins when the
// former one has ended. A reservation keeps the end of the cooldown: if the CREATE fails, the block
// cools until then.
func (b *bind) formerValue() string {
	h := &b.record.Holdings[0]
	h.Since = cmp.Or(b.former.Freed(), h.Since)
	if b.request.reserves {
		h.Until = b.former.End()
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

// cools handles a bind that has failed because a former block of the claim cools under the claim's ID.
// It waits until memory has that block, so that the next attempt can get it back. If that attempt has
// failed, too, the block is not what the claim asks for: it returns ErrCools. As a rule such a claim is
// gone, and only a cache still shows it.
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

// Regains reports whether a request would get a cooling block of its pool back, as of memory: one
// that an object of the holder's name has had before.
func (a *Allocator) Regains(r Request) (regains bool) {
	a.table.Visit(r.Pool, func(p *space.Pool) {
		if p.State == PoolOpen && p.In.Room.Pools.Frozen() == space.NotFrozen {
			_, regains = p.FormerBlock(r)
		}
	})
	return regains
}
