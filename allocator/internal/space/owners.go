package space

import (
	"iter"
	"net/netip"
	"slices"
	"unique"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Owner is the part of a holding by which pools and limits count a block.
type Owner struct {
	Pool    ledger.PoolID
	cluster ledger.ClusterName
	class   string
	slice   bool
}

// OwnerOf is the owner of a holding.
func OwnerOf(h store.Holding) Owner {
	return Owner{Pool: h.Pool, cluster: h.Cluster.Tenant(h.Namespace), class: h.Class, slice: h.Slice}
}

// accounts are those that a block of the owner counts for. A slice counts for none: the workspace
// has not asked for it.
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

func ownersOf(r store.Record) owners {
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

// accounts are those that the block counts for, each once, however many owners share it.
func (o owners) accounts() []Account {
	accounts := make([]Account, 0, 2)
	for by := range o.all() {
		for a := range by.accounts() {
			if !slices.Contains(accounts, a) {
				accounts = append(accounts, a)
			}
		}
	}
	return accounts
}

// blocks are the blocks of one space: the owners of each, and the number of each pool. The space's
// lock guards them.
type blocks struct {
	first  prefixes[unique.Handle[Owner]]
	rivals map[netip.Prefix][]Owner  // of blocks with several owners
	stuck  map[netip.Prefix]struct{} // disputed blocks
	unread map[netip.Prefix]struct{} // blocks that could never be read, and so have no owner
	count  map[ledger.PoolID]int
}

func newBlocks() blocks {
	return blocks{rivals: map[netip.Prefix][]Owner{}, stuck: map[netip.Prefix]struct{}{}, unread: map[netip.Prefix]struct{}{}, count: map[ledger.PoolID]int{}}
}

// all yields the prefixes of all blocks, in no order.
func (b *blocks) all() iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		for prefix := range b.first.all() {
			if !yield(prefix) {
				return
			}
		}
		for prefix := range b.unread {
			if !yield(prefix) {
				return
			}
		}
	}
}

// has reports whether there is a block at exactly this prefix, also one that cannot be read.
func (b *blocks) has(prefix netip.Prefix) bool {
	_, ok := b.first.get(prefix)
	if !ok && len(b.unread) > 0 {
		_, ok = b.unread[prefix]
	}
	return ok
}

// dispute notes whether a block is in dispute, and reports whether that is over.
func (b *blocks) dispute(prefix netip.Prefix, disputed bool) (over bool) {
	if disputed {
		b.stuck[prefix] = struct{}{}
		return false
	}
	_, over = b.stuck[prefix]
	delete(b.stuck, prefix)
	return over
}

// hide notes a block that cannot be read. One that could be read before keeps its owners.
func (b *blocks) hide(prefix netip.Prefix) {
	if _, ok := b.first.get(prefix); !ok {
		b.unread[prefix] = struct{}{}
	}
}

// Len is the number of blocks that can be read.
func (b *blocks) Len() int { return b.first.len() }

// of are the owners of a block; ok is false if there is no such block.
func (b *blocks) of(prefix netip.Prefix) (o owners, ok bool) {
	if o.first, ok = b.first.get(prefix); ok && len(b.rivals) > 0 {
		o.rivals = b.rivals[prefix]
	}
	return o, ok
}

// put adds a block with its owners. It must not be there.
func (b *blocks) put(prefix netip.Prefix, by owners) {
	delete(b.unread, prefix)
	b.first.put(prefix, by.first)
	if len(by.rivals) > 0 {
		b.rivals[prefix] = by.rivals
	}
	b.tally(by, 1)
}

// remove removes a block, and returns its owners; ok is false if there is no such block.
func (b *blocks) remove(prefix netip.Prefix) (old owners, ok bool) {
	delete(b.unread, prefix)
	if old, ok = b.of(prefix); !ok {
		return owners{}, false
	}
	b.first.remove(prefix)
	delete(b.rivals, prefix)
	b.tally(old, -1)
	return old, true
}

// tally adds to the counts of the pools of a block's owners.
func (b *blocks) tally(of owners, n int) {
	first := of.first.Value().Pool
	b.count[first] += n
	for i, rival := range of.rivals {
		again := slices.ContainsFunc(of.rivals[:i], func(o Owner) bool { return o.Pool == rival.Pool })
		if rival.Pool != first && !again {
			b.count[rival.Pool] += n
		}
	}
}
