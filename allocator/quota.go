package allocator

import (
	"maps"
	"math/big"

	"github.com/kcp-ipam/ipam/internal/cidr"
)

// Limits bound how many addresses the workspace of a request may hold, all of its
// blocks taken together. Nil is no limit. The numbers are not to be changed once the
// request was made.
type Limits struct {
	// Pool bounds what it holds of the request's pool, whatever the class.
	Pool *big.Int
	// Class bounds what it holds by the request's class, of whatever pools.
	Class *big.Int
}

// account is what a limit bounds: what a workspace holds of a pool, or by a class.
type account struct {
	pool    PoolID // empty: by the class, of whatever pools
	class   string
	cluster ClusterName
}

func (r Request) poolAccount() account {
	return account{pool: r.Pool, cluster: r.Holder.Cluster}
}

func (r Request) classAccount() account {
	return account{class: r.Class, cluster: r.Holder.Cluster}
}

// limited reports whether the request's class has a limit.
func (r Request) limited() bool { return r.Limits.Class != nil && r.Class != "" }

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
	if r.limited() {
		var held *big.Int
		held, fence = p.space.alloc.quotas.read(r.classAccount())
		held.Add(held, pledged.of(r.classAccount()))
		if exceeds(held, wanted, r.Limits.Class) {
			return fence, &QuotaError{Class: r.Class, Limit: r.Limits.Class, Held: held, Wanted: wanted}
		}
	}
	if r.Limits.Pool == nil {
		return fence, nil
	}
	held := new(big.Int).Set(pledged.of(r.poolAccount()))
	if sum := p.space.sums[r.poolAccount()]; sum != nil {
		held.Add(held, sum)
	}
	if exceeds(held, wanted, r.Limits.Pool) {
		return fence, &QuotaError{Pool: r.Pool, Limit: r.Limits.Pool, Held: held, Wanted: wanted, Cooling: p.space.coolingOf(r.poolAccount())}
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

// add counts what a call is about to take, on the accounts that are counted.
func (p pledges) add(c *call) {
	taker, ok := c.op.(interface{ takes() (owner, *big.Int) })
	if !ok || len(p) == 0 {
		return
	}
	by, n := taker.takes()
	for a := range by.accounts() {
		if sum, ok := p[a]; ok {
			sum.Add(sum, n)
		}
	}
}

// pledged is what the calls of a group are about to take on the accounts of a request.
// An account is counted from when a request with a limit asks for it.
func (g *group) pledged(r Request) pledges {
	if g == nil || r.Limits == (Limits{}) {
		return nil
	}
	for _, a := range []account{r.poolAccount(), r.classAccount()} {
		if _, counted := g.pledges[a]; counted {
			continue
		}
		sofar := pledges{a: new(big.Int)}
		for i, c := range g.calls {
			if g.shares[i].writes() {
				sofar.add(c)
			}
		}
		if g.pledges == nil {
			g.pledges = pledges{}
		}
		maps.Copy(g.pledges, sofar)
	}
	return g.pledges
}

// stamp is the fence of an account that a transaction puts.
type stamp struct {
	account  account
	compared bool // it compares it, too
}

// stamp is what tells others of a bind by a class; nil where nobody has to know.
func (a *Allocator) stamp(r Request, compared bool) *stamp {
	if r.Class == "" || r.Slice || !compared && a.quotas.fence(r.classAccount()) == 0 {
		return nil
	}
	return &stamp{account: r.classAccount(), compared: compared}
}

// stamp adds a fence to those that the group puts.
func (g *group) stamp(st *stamp) {
	if st == nil {
		return
	}
	if g.stamps == nil {
		g.stamps = map[account]struct{}{}
	}
	g.stamps[st.account] = struct{}{}
}

// relieve has those look again who wait for less to be held on some accounts.
func (a *Allocator) relieve(accounts []account) {
	for _, to := range accounts {
		for s := range a.quotas.take(to) {
			s.lock()
			s.relieve(to)
			s.unlock()
		}
	}
}
