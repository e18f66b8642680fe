package allocator

import (
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// farewell is the history's record of a tenure. The transaction that ends the tenure writes it. The zero value stands
// for a ledger that keeps no history, and writes nothing.
type farewell struct {
	tenure ledger.Tenure
	record *store.Farewell
}

// terms are the options by which blocks are freed: whether the history records a block's tenure, and how long the block
// cools.
type terms struct {
	options Options
	engine  *engine.Engine
}

// farewell returns the record of a tenure that ends now. The tenure of a failed CREATE began when the block was bound
// for it, even if the block is the former block of the name.
func (t terms) farewell(b ledger.Block, cause ledger.Cause) farewell {
	if cause == ledger.CauseCreateFailed {
		b.Since = time.Time{}
	}
	return t.farewellAt(b, cause, store.Stamped(t.engine.Hooks.Now()))
}

func (t terms) farewellAt(b ledger.Block, cause ledger.Cause, until time.Time) farewell {
	if t.options.History <= 0 {
		return farewell{}
	}
	tenure := b.Tenure().Ended(until, cause)
	t.engine.Table.Visit(b.Pool, func(p *space.Pool) { tenure = tenure.In(p.Pool) })
	return farewell{tenure, store.FarewellOf(tenure)}
}

// cooldown returns the time until which a block cools, if it is freed now; zero: it does not cool. The block of a
// failed CREATE becomes what it was before: free, or cooling until its old time.
func (t terms) cooldown(b ledger.Block, cause ledger.Cause) (time.Time, error) {
	now := t.engine.Hooks.Now()
	switch failed := cause == ledger.CauseCreateFailed && b.State == ledger.Bound; {
	case failed && b.Until.After(now):
		return b.Until, nil
	case failed:
		return time.Time{}, nil
	}
	d, err := t.options.Cooldown(b)
	if err != nil || d <= 0 {
		return time.Time{}, err
	}
	return store.Stamped(now.Add(d)), nil
}

// cooling returns the farewell, with the time until which its block cools.
func (f farewell) cooling(until time.Time) farewell {
	if f.record == nil {
		return f
	}
	f.tenure.CoolsUntil = until
	return farewell{f.tenure, store.FarewellOf(f.tenure)}
}
