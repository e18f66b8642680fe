package allocator

import (
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// farewell is what a transaction that ends the tenure of a holder writes of it. The zero value
// writes nothing: the ledger keeps no history.
type farewell struct {
	tenure Tenure
	write  []clientv3.Op
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
	return farewell{t, store.Ops(a.keys.PutTenure(t))}
}

// cooling is the same of a block that cools after it.
func (f farewell) cooling(keys store.Keys, until time.Time) farewell {
	if f.write == nil {
		return f
	}
	f.tenure.CoolsUntil = until
	return farewell{f.tenure, store.Ops(keys.PutTenure(f.tenure))}
}
