package space

import (
	"math/big"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// wanted returns how many addresses a request of the pool asks for.
func (p *Pool) wanted(r ledger.Request) *big.Int {
	if r.Exact.IsValid() {
		return cidr.Size(r.Exact)
	}
	return new(big.Int).Lsh(big.NewInt(1), uint(max(0, p.CIDR.Addr().BitLen()-r.Length)))
}

// Over returns the limit that a request would break, that of the class first; nil: none. pending counts in addition to
// the held addresses of the pool.
func (p *Pool) Over(r ledger.Request, pending Pending) *ledger.QuotaError {
	wanted := p.wanted(r)
	if ClassLimited(r) {
		held := p.In.Table.Quotas.read(ClassAccount(r))
		held.Add(held, pending.Of(ClassAccount(r)))
		if exceeds(held, wanted, r.Limits.Class) {
			return &ledger.QuotaError{Class: r.Class, Limit: r.Limits.Class, Held: held, Wanted: wanted}
		}
	}
	if r.Limits.Pool == nil {
		return nil
	}
	held := p.In.usage.of(PoolAccount(r))
	held.Add(held, pending.Of(PoolAccount(r)))
	if exceeds(held, wanted, r.Limits.Pool) {
		return &ledger.QuotaError{Pool: r.Pool, Limit: r.Limits.Pool, Held: held, Wanted: wanted, Cooling: p.In.Cooling.sums.of(PoolAccount(r))}
	}
	return nil
}

// broken returns the limit that a waiter would break if it were served; nil: none. The space
// is notified when less is held on that account. It begins to listen to the account and then looks
// again, so that it misses no change.
func (p *Pool) broken(w *Waiter, pending Pending) *ledger.QuotaError {
	var heard Account
	for {
		broken := p.Over(w.request, pending)
		if broken == nil || accountOf(broken, w.cluster()) == heard {
			return broken
		}
		heard = accountOf(broken, w.cluster())
		p.In.Table.Quotas.listen(heard, &p.In.Room)
	}
}

func exceeds(held, wanted, limit *big.Int) bool {
	return new(big.Int).Add(held, wanted).Cmp(limit) > 0
}
