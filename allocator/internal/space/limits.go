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

// Over returns the limit that a request would break, that of the class first, and the revision
// at which it read the class's fence. pending counts in addition to the held addresses.
func (p *Pool) Over(r ledger.Request, pending Pending) (fence int64, broken *ledger.QuotaError) {
	if r.Limits.Pool == nil && !ClassLimited(r) {
		return 0, nil
	}
	wanted := p.wanted(r)
	if ClassLimited(r) {
		var held *big.Int
		held, fence = p.In.Table.Quotas.read(ClassAccount(r))
		held.Add(held, pending.Of(ClassAccount(r)))
		if exceeds(held, wanted, r.Limits.Class) {
			return fence, &ledger.QuotaError{Class: r.Class, Limit: r.Limits.Class, Held: held, Wanted: wanted}
		}
	}
	if r.Limits.Pool == nil {
		return fence, nil
	}
	held := p.In.usage.of(PoolAccount(r))
	held.Add(held, pending.Of(PoolAccount(r)))
	if exceeds(held, wanted, r.Limits.Pool) {
		return fence, &ledger.QuotaError{Pool: r.Pool, Limit: r.Limits.Pool, Held: held, Wanted: wanted, Cooling: p.In.Cooling.sums.of(PoolAccount(r))}
	}
	return fence, nil
}

// broken returns the limit that a waiter would break if it were served; nil: none. The space
// is notified when less is held on that account. It begins to watch the account and then looks
// again, so that it misses no change.
func (p *Pool) broken(w *Waiter, pending Pending) *ledger.QuotaError {
	var watched Account
	for {
		_, broken := p.Over(w.request, pending)
		if broken == nil || accountOf(broken, w.cluster()) == watched {
			return broken
		}
		watched = accountOf(broken, w.cluster())
		p.In.Table.Quotas.watch(watched, &p.In.Room)
	}
}

func exceeds(held, wanted, limit *big.Int) bool {
	return new(big.Int).Add(held, wanted).Cmp(limit) > 0
}
