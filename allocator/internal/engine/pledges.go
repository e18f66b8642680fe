package engine

import (
	"maps"
	"math/big"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Pledged is how much the calls of a group are about to take on the accounts of a request.
// An account is counted as soon as a request with a limit asks for it.
func (g *group) Pledged(r ledger.Request) space.Pending {
	if g == nil || r.Limits == (ledger.Limits{}) {
		return nil
	}
	for _, a := range []space.Account{space.PoolAccount(r), space.ClassAccount(r)} {
		if _, counted := g.pledges[a]; counted {
			continue
		}
		sofar := space.Pending{a: new(big.Int)}
		for i, c := range g.calls {
			if g.shares[i].writes() {
				c.pledge(sofar)
			}
		}
		if g.pledges == nil {
			g.pledges = space.Pending{}
		}
		maps.Copy(g.pledges, sofar)
	}
	return g.pledges
}

// pledge adds what a call is about to take to the accounts that are counted.
func (c *call) pledge(p space.Pending) {
	if t, ok := c.op.(taker); ok && len(p) > 0 {
		p.Add(t.Takes())
	}
}

// stamp is the fence of an account that a transaction puts.
type stamp struct {
	account  space.Account
	compared bool // the transaction compares the fence, too
}

// StampOf is the fence that a bind by a class puts, so that other Allocators notice the bind. fence is
// its revision, which the transaction compares; 0: it compares nothing, and puts only a fence that is
// there because of some other request's limit. nil: the bind puts no fence.
func StampOf(q *space.Quotas, r ledger.Request, fence int64) *stamp {
	account := space.ClassAccount(r)
	if r.Class == "" || r.Slice || fence == 0 && q.Fence(account) == 0 {
		return nil
	}
	return &stamp{account: account, compared: fence > 0}
}

// stamp adds a fence to those that the group puts.
func (g *group) stamp(st *stamp) {
	if st == nil {
		return
	}
	if g.stamps == nil {
		g.stamps = map[space.Account]struct{}{}
	}
	g.stamps[st.account] = struct{}{}
}
