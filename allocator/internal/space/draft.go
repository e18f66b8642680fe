package space

import (
	"math/big"
	"net/netip"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// Draft holds the changes of a group, from the first plan until the outcome of their transaction is certain. The
// prefixes that they take are taken in the indexes, so that the next plan finds other room. Those that they free are free when
// the changes are applied: so no transaction writes a key twice, and a limit counts too much rather than too little. The
// space's lock guards it.
type Draft struct {
	Head string // the value of the head that its transaction puts, and no other

	keys    map[string]bool // that it changes; true: others of the group may make the same change
	taken   []taken         // in the indexes
	pending Pending         // of the accounts that a plan has asked for
	landed  int64           // revision at which memory has met its head; 0: it has not
	missed  bool            // memory was replaced by a later reading, and may have missed its head
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

// meet notes that a head has come into memory. It may be that of the draft.
func (d *Draft) meet(h store.Head) {
	if d != nil && d.Head == h.Value {
		d.landed = h.Revision
	}
}

// skip notes that memory is as of a later reading of the ledger, which shows the last head alone.
func (d *Draft) skip(last store.Head) {
	if d != nil {
		d.missed = true
		d.meet(last)
	}
}

// Landed returns the revision at which the transaction of the draft was committed, as of memory; 0: it was not. certain is
// false if memory may have missed that.
func (d *Draft) Landed() (revision int64, certain bool) {
	return d.landed, d.landed > 0 || !d.missed
}

// Pending returns how much the draft is about to take on the accounts of a request. An account is counted as soon as a
// request with a limit asks for it.
func (d *Draft) Pending(r ledger.Request) Pending {
	if d == nil || r.Limits == (ledger.Limits{}) {
		return nil
	}
	for _, a := range []Account{PoolAccount(r), ClassAccount(r)} {
		if _, counted := d.pending[a]; counted {
			continue
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
	}
	return d.pending
}
