package allocator

import (
	"math/big"

	"github.com/kcp-ipam/ipam/internal/cidr"
)

// account is what a limit bounds: what a workspace holds of a pool, or by a class.
type account struct {
	pool    PoolID // empty: by the class, of whatever pools
	class   string
	cluster ClusterName
}

func poolAccount(r Request) account {
	return account{pool: r.Pool, cluster: r.Holder.Cluster}
}

func classAccount(r Request) account {
	return account{class: r.Class, cluster: r.Holder.Cluster}
}

// classLimited reports whether the request's class has a limit.
func classLimited(r Request) bool { return r.Limits.Class != nil && r.Class != "" }

// wanted is how many addresses a request of the pool asks for.
func (p *pool) wanted(r Request) *big.Int {
	if r.Exact.IsValid() {
		return cidr.Size(r.Exact)
	}
	return new(big.Int).Lsh(big.NewInt(1), uint(max(0, p.CIDR.Addr().BitLen()-r.Length)))
}

// over says which limit a request would break, that of the class first, and at which
// revision of the fence that is so. pledged is what is to be counted beside what is
// held.
func (p *pool) over(r Request, pledged pledges) (fence int64, broken *QuotaError) {
	wanted := p.wanted(r)
	if classLimited(r) {
		var held *big.Int
		held, fence = p.space.table.quotas.read(classAccount(r))
		held.Add(held, pledged.of(classAccount(r)))
		if exceeds(held, wanted, r.Limits.Class) {
			return fence, &QuotaError{Class: r.Class, Limit: r.Limits.Class, Held: held, Wanted: wanted}
		}
	}
	if r.Limits.Pool == nil {
		return fence, nil
	}
	held := new(big.Int).Set(pledged.of(poolAccount(r)))
	if sum := p.space.sums[poolAccount(r)]; sum != nil {
		held.Add(held, sum)
	}
	if exceeds(held, wanted, r.Limits.Pool) {
		return fence, &QuotaError{Pool: r.Pool, Limit: r.Limits.Pool, Held: held, Wanted: wanted, Cooling: p.space.coolingOf(poolAccount(r))}
	}
	return fence, nil
}

func exceeds(held, wanted, limit *big.Int) bool {
	return new(big.Int).Add(held, wanted).Cmp(limit) > 0
}

// accountOf is the account of the limit that was met.
func accountOf(e *QuotaError, c ClusterName) account {
	return account{pool: e.Pool, class: e.Class, cluster: c}
}

// pledges count addresses that are about to be taken, and not in the ledger yet.
type pledges map[account]*big.Int

func (p pledges) of(a account) *big.Int {
	if n, ok := p[a]; ok {
		return n
	}
	return new(big.Int)
}

// add counts what an owner is about to take, on the accounts that are counted.
func (p pledges) add(by owner, n *big.Int) {
	for a := range by.accounts() {
		if sum, ok := p[a]; ok {
			sum.Add(sum, n)
		}
	}
}
