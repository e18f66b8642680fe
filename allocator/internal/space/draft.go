package space

import (
	"math/big"
	"net/netip"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// Draft has the prefixes that a group takes in a space, from the first plan until the outcome of the transaction is
// certain. They are taken in the indexes, so that the next plan finds other room. Prefixes that the group frees become
// free only when its changes are applied: a limit counts too much rather than too little. The space's lock guards it.
type Draft struct {
	taken   []taken // prefixes that are taken in the indexes
	pending Pending // addresses about to be taken, on the accounts that a plan has asked for
}

// taken is a prefix that a draft takes, and its owner.
type taken struct {
	prefix netip.Prefix
	by     Owner
}

// len counts the prefixes that the draft has taken.
func (d *Draft) len() int {
	if d == nil {
		return 0
	}
	return len(d.taken)
}

// Pending returns how many addresses the draft is about to take, by account. If the request has a limit of its pool,
// the result includes the account of that limit. An account is counted when a request first asks for it.
func (d *Draft) Pending(r ledger.Request) Pending {
	if d == nil || r.Limits.Pool == nil {
		return nil
	}
	a := PoolAccount(r)
	if _, counted := d.pending[a]; counted {
		return d.pending
	}
	sum := new(big.Int)
	for _, t := range d.taken {
		if slices.Contains(slices.Collect(t.by.accounts()), a) {
			sum.Add(sum, cidr.Size(t.prefix))
		}
	}
	if d.pending == nil {
		d.pending = Pending{}
	}
	d.pending[a] = sum
	return d.pending
}
