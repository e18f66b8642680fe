package space

import (
	"iter"
	"net/netip"
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

// owner stands for an Owner in little memory: there are few owners, and each has many blocks.
type owner = unique.Handle[Owner]

// OwnerOf returns the owner of a holding.
func OwnerOf(h store.Holding) Owner {
	return Owner{Pool: h.Pool, cluster: h.Cluster.Tenant(h.Namespace), class: h.Class, slice: h.Slice}
}

func ownerOf(r store.Record) owner { return unique.Make(OwnerOf(*r.Held)) }

// accounts yields the accounts that a block of the owner counts for. A slice counts for none: the workspace has not
// asked for it.
func (o Owner) accounts() iter.Seq[Account] {
	return func(yield func(Account) bool) {
		if o.slice || !yield(Account{pool: o.Pool, Cluster: o.cluster}) || o.class == "" {
			return
		}
		yield(Account{Class: o.class, Cluster: o.cluster})
	}
}

// blocks has the blocks of one space: the owner of each, and how many each pool has. The space's lock guards it.
type blocks struct {
	prefixes[owner]
	unread map[netip.Prefix]struct{} // blocks that could never be read, and so have no owner
	count  map[ledger.PoolID]int
}

func newBlocks() blocks {
	return blocks{unread: map[netip.Prefix]struct{}{}, count: map[ledger.PoolID]int{}}
}

// taken yields the prefixes of all blocks, in no order.
func (b *blocks) taken() iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		for prefix := range b.all() {
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
	_, ok := b.get(prefix)
	if !ok && len(b.unread) > 0 {
		_, ok = b.unread[prefix]
	}
	return ok
}

// hide notes a block whose value cannot be read. If it could be read before, it keeps its owner.
func (b *blocks) hide(prefix netip.Prefix) {
	if _, ok := b.get(prefix); !ok {
		b.unread[prefix] = struct{}{}
	}
}

// Len returns the number of blocks that have an owner.
func (b *blocks) Len() int { return b.len() }

// add adds a new block with its owner.
func (b *blocks) add(prefix netip.Prefix, by owner) {
	delete(b.unread, prefix)
	b.put(prefix, by)
	b.count[by.Value().Pool]++
}

// drop removes a block, and returns its owner; ok is false if there is no such block.
func (b *blocks) drop(prefix netip.Prefix) (old owner, ok bool) {
	delete(b.unread, prefix)
	if old, ok = b.get(prefix); ok {
		b.remove(prefix)
		b.count[old.Value().Pool]--
	}
	return old, ok
}
