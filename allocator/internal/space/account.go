package space

import (
	"math/big"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// Account names what a limit bounds: the addresses that a workspace holds of a pool, or by a class.
type Account struct {
	pool    ledger.PoolID // empty: by the class, of any pool
	Class   string
	Cluster ledger.ClusterName
}

// PoolAccount is the account of the request's workspace with the request's pool.
func PoolAccount(r ledger.Request) Account {
	return Account{pool: r.Pool, Cluster: r.Holder.Cluster}
}

// ClassAccount is the account of the request's workspace with the request's class.
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

// Over returns the limit that a request would break, that of the class first, and the revision
// at which it read the class's fence. pledged counts in addition to the held addresses.
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

// broken returns the limit that a waiter would break if it were served; nil: none. The space
// is notified when less is held on that account. It begins to watch the account and then looks
// again, so that it misses no change.
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

// accountOf is the account of a limit that a request would break.
func accountOf(e *ledger.QuotaError, c ledger.ClusterName) Account {
	return Account{pool: e.Pool, Class: e.Class, Cluster: c}
}

// Pending counts addresses that are about to be taken, and are not in the ledger yet.
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
