package allocator

import (
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// A claim with the name of a cooling block's former holder gets the block back at once. That is a
// bind whose transaction replaces the block's value, and replaces the key of the former claim by
// that of the new one.

// takeFormer plans a bind that gets a cooling block back. The transaction compares that the block is still as memory
// has it, where a bind of a free prefix compares that there is no block. The history has no gap: the new tenure begins
// when the former one has ended. A block that is bound for a CREATE keeps the end of the cooldown: if the CREATE fails,
// the block cools until that time.
func (b *bind) takeFormer(v space.View, at place) engine.Plan {
	h := *b.asked.Held
	h.Since = at.former.Freed()
	if ledger.IsAllocationID(h.Claim) {
		h.Until = at.former.End()
	}
	r := store.Record{Space: v.Space(), Prefix: at.prefix, Held: &h}
	p := engine.Plan{Answer: engine.Answer{Block: r.Block()}}
	p.Changes = append(p.Changes, v.Keys.PutBlock(r, r.Encode()).At(at.former.At, engine.ErrMistaken))
	claim, former := b.Holder.Claim, at.former.Claim
	if former != claim {
		p.Changes = append(p.Changes, v.Keys.PutClaim(claim, at.prefix).At(0, errBound), v.Keys.RemoveClaim(former))
	}
	return p
}

// cools handles a bind that was refused because a former block of the claim cools under the claim's ID. At the first
// refusal it returns nil, and the caller tries again. If the same block causes a second refusal, it is not the block
// that the claim asks for, and cools returns ErrCools. Usually such a claim is gone, and only a cache still shows it.
func cools(b ledger.Block, last *int64) error {
	if b.State != ledger.Cooling {
		return nil
	}
	if b.Revision == *last {
		return fmt.Errorf("%w: %s until %s", ledger.ErrCools, b.Prefix, b.Until.Format(time.RFC3339))
	}
	*last = b.Revision
	return nil
}

// Regains reports whether a request would get a cooling block of its pool back, as of memory, because an object of the
// holder's name had the block before.
func (ps Pools) Regains(r ledger.Request) (regains bool) {
	ps.a.table.Visit(r.Pool, func(p *space.Pool) {
		if p.State == ledger.PoolOpen && p.In.Room.Pools.Frozen() == space.NotFrozen {
			_, regains = p.FormerBlock(r)
		}
	})
	return regains
}
