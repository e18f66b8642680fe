package allocator

import (
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// farewell is what a transaction that ends the tenure of a holder writes of it. The zero value
// writes nothing: the ledger keeps no history.
type farewell struct {
	tenure Tenure
	record *store.Farewell
}

// farewell is that of a block that is let go now.
func (a *Allocator) farewell(b Block, cause Cause) farewell {
	if a.options.History <= 0 {
		return farewell{}
	}
	if b.State == Reserved {
		cause = CauseCreateFailed
	}
	return a.farewellAt(b, cause, store.Stamped(a.engine.Hooks.Now()))
}

func (a *Allocator) farewellAt(b Block, cause Cause, until time.Time) farewell {
	if a.options.History <= 0 {
		return farewell{}
	}
	t := b.Tenure().Ended(until, cause)
	return farewell{t, store.FarewellOf(t)}
}

// cooling is the same of a block that cools after it.
func (f farewell) cooling(until time.Time) farewell {
	if f.record == nil {
		return f
	}
	f.tenure.CoolsUntil = until
	return farewell{f.tenure, store.FarewellOf(f.tenure)}
}
