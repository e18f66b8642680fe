package space

import (
	"math/big"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// Account is what a limit bounds: what a workspace holds of a pool, or by a class.
type Account struct {
	pool    ledger.PoolID // empty: by the class, of whatever pools
	Class   string
	Cluster ledger.ClusterName
}

// PoolAccount is what the request's workspace holds of the request's pool.
func PoolAccount(r ledger.Request) Account {
	return Account{pool: r.Pool, Cluster: r.Holder.Cluster}
}

// ClassAccount is what the request's workspace holds by the request's class.
func ClassAccount(r ledger.Request) Account {
	return Account{Class: r.Class, Cluster: r.Holder.Cluster}
}

// ClassLimited reports whether the request's class has a limit.
func ClassLimited(r ledger.Request) bool { return r.Limits.Class != nil && r.Class != "" }

// wanted is how many addresses a request of the pool asks for.
func (p *Pool) wanted(r ledger.Request) *big.Int {
	if r.Exact.IsValid() {
		return cidr.Size(r.Exact)
	}
	return new(big.Int).Lsh(big.NewInt(1), uint(max(0, p.CIDR.Addr().BitLen()-r.Length)))
}

// Over says which limit a request would break, that of the class first, and at which
// revision of the fence that is so. pledged is what is to be counted beside what is
// held.
func (p *Pool) Over(r ledger.Request, pledged Pending) (fence int64, broken *ledger.QuotaError) {
	if r.Limits.Pool == nil && !ClassLimited(r) {
		return 0, nil
	}
	wanted := p.wanted(r)
	if ClassLimited(r) {
		var held *big.Int
		held, fence = p.In.Table.Quotas.read(ClassAccount(r))
		held.Add(held, pledged.Of(ClassAccount(r)))
		if exceeds(held, wanted, r.Limits.Class) {
			return fence, &ledger.QuotaError{Class: r.Class, Limit: r.Limits.Class, Held: held, Wanted: wanted}
		}
	}
	if r.Limits.Pool == nil {
		return fence, nil
	}
	held := p.In.usage.of(PoolAccount(r))
	held.Add(held, pledged.Of(PoolAccount(r)))
	if exceeds(held, wanted, r.Limits.Pool) {
		return fence, &ledger.QuotaError{Pool: r.Pool, Limit: r.Limits.Pool, Held: held, Wanted: wanted, Cooling: p.In.Cooling.sums.of(PoolAccount(r))}
	}
	return fence, nil
}

// broken says which limit a waiter would break if it were served. The space is told
// when less is held on its account: it asks for that, then looks again, so that no change
// slips between.
func (p *Pool) broken(w *Waiter, pledged Pending) *ledger.QuotaError {
	var watched Account
	for {
		_, broken := p.Over(w.request, pledged)
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

// accountOf is the account of the limit that was met.
func accountOf(e *ledger.QuotaError, c ledger.ClusterName) Account {
	return Account{pool: e.Pool, Class: e.Class, Cluster: c}
}

// Pending count addresses that are about to be taken, and not in the ledger yet.
type Pending map[Account]*big.Int

// Of is how much is about to be taken on an account.
func (p Pending) Of(a Account) *big.Int {
	if n, ok := p[a]; ok {
		return n
	}
	return new(big.Int)
}

// Add counts what an owner is about to take, on the accounts that are counted.
func (p Pending) Add(by Owner, n *big.Int) {
	for a := range by.accounts() {
		if sum, ok := p[a]; ok {
			sum.Add(sum, n)
		}
	}
}
