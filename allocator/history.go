package allocator

import (
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// farewell is the record of a tenure, which the transaction that ends it writes. The zero value
// writes nothing: the ledger keeps no history.
type farewell struct {
	tenure ledger.Tenure
	record *store.Farewell
}

// terms are the options by which blocks are freed: whether the history records it, and how long they
// cool.
type terms struct {
	options Options
	engine  *engine.Engine
}

// farewell is that of a block that its holder loses now. A CREATE that has failed had it since its answer, also if it
// was the former block of the name.
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

// cooldown is the end of the cooldown of a block that is freed now; zero: it does not cool. The block of a CREATE that
// has failed becomes what it was before: free, or cooling until its old time.
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

// cooling is the farewell of a block that cools until then.
func (f farewell) cooling(until time.Time) farewell {
	if f.record == nil {
		return f
	}
	f.tenure.CoolsUntil = until
	return farewell{f.tenure, store.FarewellOf(f.tenure)}
}
