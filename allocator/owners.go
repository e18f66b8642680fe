package allocator

import (
	"iter"
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"unique"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// owner says who has a block, as far as pools and limits count it.
type owner struct {
	pool    PoolID
	cluster ClusterName
	class   string
	slice   bool
}

func ownerOf(h store.Holding) owner {
	return owner{pool: h.Pool, cluster: h.Cluster, class: h.Class, slice: h.Slice}
}

// accounts are those that a block of the owner is on. Slices are on none: nobody has
// asked for them.
func (o owner) accounts() iter.Seq[account] {
	return func(yield func(account) bool) {
		if o.slice || !yield(account{pool: o.pool, cluster: o.cluster}) || o.class == "" {
			return
		}
		yield(account{class: o.class, cluster: o.cluster})
	}
}

// owners are those of one block. Only a disputed block has rivals.
type owners struct {
	first  unique.Handle[owner]
	rivals []owner
}

func ownersOf(r store.Record) owners {
	o := owners{first: unique.Make(ownerOf(r.Holdings[0]))}
	for _, h := range r.Holdings[1:] {
		o.rivals = append(o.rivals, ownerOf(h))
	}
	return o
}

// all yields the owners of a block, the oldest first.
func (o owners) all() iter.Seq[owner] {
	return func(yield func(owner) bool) {
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

// own notes a block that is new or has other owners. They are counted before the old
// ones are not: who looks in between sees too much, never too little.
func (s *space) own(prefix netip.Prefix, by owners) {
	s.touchAll(prefix)
	if s.owners[prefix] == by.first && len(s.rivals[prefix])+len(by.rivals) == 0 {
		return
	}
	s.count(prefix, by, 1)
	s.forget(prefix)
	s.owners[prefix] = by.first
	if len(by.rivals) > 0 {
		s.rivals[prefix] = by.rivals
	}
}

// disown returns the prefix of a block that is gone.
func (s *space) disown(prefix netip.Prefix) {
	s.uncool(prefix)
	s.forget(prefix)
	s.touchAll(prefix)
	s.put(prefix)
}

// forget notes that a block has no owners.
func (s *space) forget(prefix netip.Prefix) {
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
func (s *space) count(prefix netip.Prefix, of owners, sign int64) {
	n := cidr.Size(prefix)
	n.Mul(n, big.NewInt(sign))
	pools, accounts := make([]PoolID, 0, 2), make([]account, 0, 4)
	for o := range of.all() {
		if p := s.pool(o.pool); p != nil && !slices.Contains(pools, o.pool) {
			p.owned += int(sign)
			pools = append(pools, o.pool)
		}
		for a := range o.accounts() {
			if !slices.Contains(accounts, a) {
				s.post(a, n)
				accounts = append(accounts, a)
			}
		}
	}
}

// post adds to an account.
func (s *space) post(a account, n *big.Int) {
	sum, ok := s.sums[a]
	if !ok {
		sum = new(big.Int)
		s.sums[a] = sum
	}
	if sum.Add(sum, n); sum.Sign() == 0 {
		delete(s.sums, a)
	}
	if !s.draft {
		s.publish(a, n)
	}
}

// publish tells those outside of the space that an account has changed: first how much
// is held, then that it is less. Who waits for that asks to be told, then looks.
func (s *space) publish(a account, n *big.Int) {
	if a.pool == "" {
		s.table.quotas.post(a, n)
	}
	if n.Sign() < 0 && s.table.quotas.watched(a) && !slices.Contains(s.news.relieved, a) {
		s.news.relieved = append(s.news.relieved, a)
	}
}

// balance makes the accounts what a fresh reading of the space says.
func (s *space) balance(fresh *space) {
	changes := maps.Clone(fresh.sums)
	for a, was := range s.sums {
		change := new(big.Int).Neg(was)
		if now, ok := changes[a]; ok {
			change.Add(change, now)
		}
		changes[a] = change
	}
	for a, change := range changes {
		s.publish(a, change)
	}
	s.owners, s.rivals, s.sums, s.cooling = fresh.owners, fresh.rivals, fresh.sums, fresh.cooling
}
