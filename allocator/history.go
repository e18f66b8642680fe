package allocator

import (
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// farewell is what a transaction that ends the tenure of a holder writes of it. The zero value
// writes nothing: the ledger keeps no history.
type farewell struct {
	tenure Tenure
	record *store.Farewell
}

// terms are those on which blocks are let go: what the history keeps of them, and for how long they
// cool.
type terms struct {
	options Options
	engine  *engine.Engine
}

// farewell is that of a block that is let go now.
func (t terms) farewell(b Block, cause Cause) farewell {
	if b.State == Reserved {
		cause = CauseCreateFailed
	}
	return t.farewellAt(b, cause, store.Stamped(t.engine.Hooks.Now()))
}

func (t terms) farewellAt(b Block, cause Cause, until time.Time) farewell {
	if t.options.History <= 0 {
		return farewell{}
	}
	tenure := b.Tenure().Ended(until, cause)
	return farewell{tenure, store.FarewellOf(tenure)}
}

// cooldown is when a block that is freed now may be given to anybody; zero: now. A
// reservation goes back to what it was: free, or cooling until its old time.
func (t terms) cooldown(b Block) (time.Time, error) {
	now := t.engine.Hooks.Now()
	switch {
	case b.State == Reserved && b.Until.After(now):
		return b.Until, nil
	case b.State == Reserved, b.State == Disputed:
		return time.Time{}, nil
	}
	d, err := t.options.Cooldown(b)
	if err != nil || d <= 0 {
		return time.Time{}, err
	}
	return store.Stamped(now.Add(d)), nil
}

// cooling is the same of a block that cools after it.
func (f farewell) cooling(until time.Time) farewell {
	if f.record == nil {
		return f
	}
	f.tenure.CoolsUntil = until
	return farewell{f.tenure, store.FarewellOf(f.tenure)}
}
