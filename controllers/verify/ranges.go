package verify

import (
	"fmt"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

var _ catalog.Pools = (*books)(nil)

// Get implements catalog.Pools.
func (b *books) Get(id ledger.PoolID) (ledger.Pool, bool) {
	p := b.pools[id]
	if p == nil {
		return ledger.Pool{}, false
	}
	return p.Pool, true
}

// spacesOf returns the address spaces of a pool.
func (b *books) spacesOf(p *pool) []*pool {
	if b.apart == nil {
		b.apart = map[ledger.PoolID][]*pool{}
		for id, p := range b.pools {
			if of, is := ledger.AddressSpaceOf(id); is {
				b.apart[of] = append(b.apart[of], p)
			}
		}
	}
	return b.apart[p.ID]
}

// fullest returns the address space of a pool that has most of its addresses; nil if it has none.
func (b *books) fullest(of *pool) (fullest *pool) {
	for _, p := range b.spacesOf(of) {
		if fullest == nil || p.taken.Cmp(fullest.taken) > 0 {
			fullest = p
		}
	}
	return fullest
}

// seeRange compares a claim that holds a pool with that pool.
func (c comparison) seeRange(cluster ledger.ClusterName, claim *ipamv1alpha1.IPClaim) {
	shown := claim.Status.AllocatedCIDR
	held := c.holds(promise.IDOf(cluster, claim))
	about := Finding{
		Cluster: cluster, Namespace: claim.Namespace, Name: claim.Name, UID: string(claim.UID), Prefix: shown,
	}
	switch {
	case held == nil && shown == "":
	case held == nil:
		about.Kind, about.Message = ClaimWithoutBlock, "the claim shows this range, and holds no pool"
		c.find(about.by(LookAtClaim))
	default:
		held.kept = true
		if shown != "" && shown != held.CIDR.String() {
			about.Kind, about.Message = ClaimMismatch, fmt.Sprintf("the claim holds pool %s, which is %s", held.Name, held.CIDR)
			c.find(about.by(LookAtClaim))
		}
	}
}

// holds returns the pool that a claim holds; nil: none.
func (b *books) holds(by ledger.ClaimID) *pool {
	if b.held == nil {
		b.held = map[ledger.ClaimID]*pool{}
		for _, p := range b.pools {
			if p.Derived != nil && p.Derived.Holder.Claim != "" {
				b.held[p.Derived.Holder.Claim] = p
			}
		}
	}
	return b.held[by]
}

// judgeDerived finds the objects that are missing of a pool that the system has made. Its IPPool is made again by
// itself. One in which nobody has a block may be closed, and has none then: the ledger does not say so.
func (c comparison) judgeDerived(p *pool) {
	if ledger.IsAddressSpace(p.ID) {
		return
	}
	lived := p.lived || slices.ContainsFunc(c.spacesOf(p), func(s *pool) bool { return s.lived })
	if lived && !p.seen && p.State == ledger.PoolOpen {
		c.find(aboutPool(PoolWithoutObject, p.Pool, "its IPPool does not exist; the controller makes it again"))
	}
	h := p.Derived.Holder
	if h.Claim == "" || p.kept || c.young(ledger.Block{Holder: h, BoundAt: p.Derived.HeldSince}) {
		return
	}
	c.find(Finding{
		Kind: BlockWithoutClaim, Cluster: h.Cluster, Namespace: h.Namespace, Name: h.Name, UID: string(h.Claim), Prefix: p.CIDR.String(),
		Message: fmt.Sprintf("the claim that holds pool %s does not exist", p.Name),
	}.by(ConfirmRelease))
}
