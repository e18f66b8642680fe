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

// Over returns the limit that a request would break; nil: none. It judges the class's limit first. pending is counted
// in addition to the addresses that the workspace holds.
func (p *Pool) Over(r ledger.Request, pending Pending) *ledger.QuotaError {
	if r.Limits.Pool == nil && !ClassLimited(r) {
		return nil
	}
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
		cooling := p.In.Cooling.sums.of(PoolAccount(r))
		return &ledger.QuotaError{Pool: r.Pool, Limit: r.Limits.Pool, Held: held, Wanted: wanted, Cooling: cooling}
	}
	return nil
}

func exceeds(held, wanted, limit *big.Int) bool {
	return new(big.Int).Add(held, wanted).Cmp(limit) > 0
}
