package space

import (
	"net/netip"

	"github.com/google/btree"
	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// Pool is a pool of a space in memory. Its space's lock guards it.
type Pool struct {
	ledger.Pool
	In        *Space
	Index     *index.Index
	Cools     coolingWindow
	Waiting   waitlist
	Retiring  bool // a goroutine retires it
	Untrusted bool // it began frozen, and Trust was not called yet
}

// Used reports whether the pool has to stay: somebody has a block of it, or holds the pool itself.
func (p *Pool) Used() bool { return p.Held() > 0 || p.Kept() }

// Empty reports whether an address space has no block, and no key that cannot be read.
func (p *Pool) Empty() bool { return len(p.In.Damage) == 0 && p.In.Blocks.Len() == 0 }

// Waited reports whether claims wait for room in the pool.
func (p *Pool) Waited() bool { return p.Waiting.Len() > 0 }

// goes reports whether the pool goes by itself: it drains and is empty, or is an address space without a block and
// without a waiter.
func (p *Pool) goes() bool {
	if ledger.IsAddressSpace(p.ID) {
		return p.Empty() && !p.Waited()
	}
	return p.State == ledger.PoolDraining && !p.Used() && !p.In.Table.PartsOf(p.ID).Held
}

// Held returns the number of the pool's blocks that have a holder. Cooling blocks have none.
func (p *Pool) Held() int { return p.blocks() - p.Cools.Own }

// blocks returns the number of the pool's blocks in the ledger, cooling ones included.
func (p *Pool) blocks() int {
	if len(p.In.Room.Pools) == 1 {
		return p.Index.Blocks() - p.In.Room.reserved.len() - p.In.draft.len()
	}
	return p.In.Blocks.count[p.ID]
}

// FreezeReason is why a pool keeps its space frozen.
type FreezeReason int

const (
	// NotFrozen: the pool does not keep its space frozen.
	NotFrozen FreezeReason = iota
	// Releasing: the claim that holds the pool is being deleted.
	Releasing
	// Untrusted: Trust was not called yet in this Allocator.
	Untrusted
	// LostChanges: the ledger records that changes are lost.
	LostChanges
)

// FreezeReason returns why the pool keeps its space frozen, or NotFrozen.
func (p *Pool) FreezeReason() FreezeReason {
	switch {
	case p.Frozen:
		return LostChanges
	case p.Untrusted:
		return Untrusted
	case p.Closed():
		return Releasing
	}
	return NotFrozen
}

// cool notes that a block which overlaps the pool cools.
func (p *Pool) cool(prefix netip.Prefix, c *Cooled) {
	if p.Cools.ends == nil {
		p.Cools.ends = btree.NewG(32, deadline.less)
	}
	p.Cools.ends.ReplaceOrInsert(deadline{c.until, prefix})
	p.Cools.sum.Add(&p.Cools.sum, cidr.Size(cidr.Narrower(p.CIDR, prefix)))
	if c.Owner.Value().Pool == p.ID {
		p.Cools.Own++
	}
}

// uncool notes that a block which overlaps the pool does not cool any more.
func (p *Pool) uncool(prefix netip.Prefix, c *Cooled) {
	p.Cools.ends.Delete(deadline{c.until, prefix})
	p.Cools.sum.Sub(&p.Cools.sum, cidr.Size(cidr.Narrower(p.CIDR, prefix)))
	if c.Owner.Value().Pool == p.ID {
		p.Cools.Own--
	}
}

// HeldFor returns the prefix that is held for a request; ok is false if there is none.
func (p *Pool) HeldFor(req ledger.Request) (prefix netip.Prefix, ok bool) {
	w := p.Waiting.find(req.Holder.Claim)
	if w == nil || !w.held || !w.asks(req) {
		return netip.Prefix{}, false
	}
	return w.Last, true
}

// Waits reports whether the claim of a request waits for the same block as the request asks for, or does not wait.
func (p *Pool) Waits(req ledger.Request) bool {
	w := p.Waiting.find(req.Holder.Claim)
	return w == nil || w.asks(req)
}
