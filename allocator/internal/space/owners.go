package space

import (
	"iter"
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"unique"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// Owner says who has a block, as far as pools and limits count it.
type Owner struct {
	Pool    ledger.PoolID
	cluster ledger.ClusterName
	class   string
	slice   bool
}

// OwnerOf is who has a block by one of its holdings.
func OwnerOf(h store.Holding) Owner {
	return Owner{Pool: h.Pool, cluster: h.Cluster, class: h.Class, slice: h.Slice}
}

// accounts are those that a block of the owner is on. Slices are on none: nobody has
// asked for them.
func (o Owner) accounts() iter.Seq[Account] {
	return func(yield func(Account) bool) {
		if o.slice || !yield(Account{pool: o.Pool, Cluster: o.cluster}) || o.class == "" {
			return
		}
		yield(Account{Class: o.class, Cluster: o.cluster})
	}
}

// owners are those of one block. Only a disputed block has rivals.
type owners struct {
	first  unique.Handle[Owner]
	rivals []Owner
}

// OwnersOf are those of a block of the ledger.
func OwnersOf(r store.Record) owners {
	o := owners{first: unique.Make(OwnerOf(r.Holdings[0]))}
	for _, h := range r.Holdings[1:] {
		o.rivals = append(o.rivals, OwnerOf(h))
	}
	return o
}

// all yields the owners of a block, the oldest first.
func (o owners) all() iter.Seq[Owner] {
	return func(yield func(Owner) bool) {
		if !yield(o.first.Value()) {
			return
		}
		for _, rival := range o.rivals {
			if !yield(rival) {
				return
			}
		}
	}
}

// SetOwners notes a block that is new or has other owners. They are counted before the old
// ones are not: who looks in between sees too much, never too little.
func (s *Space) SetOwners(prefix netip.Prefix, by owners) {
	s.touchAll(prefix)
	if s.owners[prefix] == by.first && len(s.rivals[prefix])+len(by.rivals) == 0 {
		return
	}
	s.count(prefix, by, 1)
	s.dropOwners(prefix)
	s.owners[prefix] = by.first
	if len(by.rivals) > 0 {
		s.rivals[prefix] = by.rivals
	}
}

// removeBlock returns the prefix of a block that is gone.
func (s *Space) removeBlock(prefix netip.Prefix) {
	s.uncool(prefix)
	s.dropOwners(prefix)
	s.touchAll(prefix)
	s.putBack(prefix)
}

// dropOwners notes that a block has no owners.
func (s *Space) dropOwners(prefix netip.Prefix) {
	first, ok := s.owners[prefix]
	if !ok {
		return
	}
	old := owners{first: first, rivals: s.rivals[prefix]}
	delete(s.owners, prefix)
	delete(s.rivals, prefix)
	s.count(prefix, old, -1)
}

// count adds a block to what its owners have, or takes it away: once for each pool and
// account, however many of the owners share them.
func (s *Space) count(prefix netip.Prefix, of owners, sign int64) {
	n := cidr.Size(prefix)
	n.Mul(n, big.NewInt(sign))
	pools, accounts := make([]ledger.PoolID, 0, 2), make([]Account, 0, 4)
	for o := range of.all() {
		if p := s.Pool(o.Pool); p != nil && !slices.Contains(pools, o.Pool) {
			p.owned += int(sign)
			pools = append(pools, o.Pool)
		}
		for a := range o.accounts() {
			if !slices.Contains(accounts, a) {
				s.addUsage(a, n)
				accounts = append(accounts, a)
			}
		}
	}
}

// addUsage adds to an account.
func (s *Space) addUsage(a Account, n *big.Int) {
	sum, ok := s.sums[a]
	if !ok {
		sum = new(big.Int)
		s.sums[a] = sum
	}
	if sum.Add(sum, n); sum.Sign() == 0 {
		delete(s.sums, a)
	}
	if !s.draft {
		s.publishUsage(a, n)
	}
}

// publishUsage tells those outside of the space that an account has changed: first how much
// is held, then that it is less. Who waits for that asks to be told, then looks.
func (s *Space) publishUsage(a Account, n *big.Int) {
	if a.pool == "" {
		s.Table.Quotas.post(a, n)
	}
	if n.Sign() < 0 && s.Table.Quotas.watched(a) && !slices.Contains(s.news.Relieved, a) {
		s.news.Relieved = append(s.news.Relieved, a)
	}
}

// replaceUsage makes the accounts what a fresh reading of the space says.
func (s *Space) replaceUsage(fresh *Space) {
	changes := maps.Clone(fresh.sums)
	for a, was := range s.sums {
		change := new(big.Int).Neg(was)
		if now, ok := changes[a]; ok {
			change.Add(change, now)
		}
		changes[a] = change
	}
	for a, change := range changes {
		s.publishUsage(a, change)
	}
	s.owners, s.rivals, s.sums, s.Cooling = fresh.owners, fresh.rivals, fresh.sums, fresh.Cooling
}
