package recover

import (
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// The join of the books with the objects: first IPPools, then IPClaims, then IPAllocations. Each object is compared
// when it is read, and not kept. Then the method end finds the blocks and pools that no object shows.

// of returns the block of a claim, or nil. A cooling block belongs to no claim.
func (b *books) of(id ledger.ClaimID) *block {
	held := b.blocks.of(id)
	if held == nil || held.State == ledger.Cooling {
		return nil
	}
	return held
}

// join adds to a record the block, or the pool, that the ledger has for the record's holder. Safe for concurrent use
// once the ledger was read.
func (b *books) join(r record) record {
	if by := r.request.Holder.Claim; r.ranged {
		r.holds = b.held[by]
	} else {
		r.held, r.hidden = b.of(by), b.hidden[by]
	}
	return r
}

// see compares an object with the books, and adds what differs to the findings.
func (b *books) see(cluster ledger.ClusterName, object client.Object) {
	if odd := decode.Unreadable(object); odd != nil {
		b.seeOdd(cluster, object, odd)
		return
	}
	if pool, ok := object.(*ipamv1alpha1.IPPool); ok {
		b.seePool(cluster, pool)
		return
	}
	r := b.join(readRecord(cluster, object))
	if r.mark() {
		b.find(about(RecordMismatch, r.held.Block, "IPAllocation %s is a second record of the block", r.name))
	}
	if f := r.differs(); f.Kind != "" {
		b.find(f)
	}
}

// mark notes in the books that the claim or IPAllocation of a block or range exists. again is true if it is the second
// IPAllocation of a block.
func (r *record) mark() (again bool) {
	switch {
	case r.holds != nil:
		r.holds.kept = true
	case r.held == nil:
	case r.claimed:
		r.held.held, r.held.leaving = true, r.leaving
	default:
		again, r.held.recorded = r.held.recorded, true
	}
	return again
}

// seeOdd reports an object that cannot be read. The object exists, so its block or pool is not reported as lacking it.
func (b *books) seeOdd(cluster ledger.ClusterName, object client.Object, odd error) {
	b.find(Finding{
		Kind: Unreadable, Cluster: cluster, Namespace: object.GetNamespace(), Name: object.GetName(),
		UID: string(object.GetUID()), Message: odd.Error(),
	})
	ids := []ledger.ClaimID{ledger.ClaimID(object.GetUID())}
	switch o := object.(type) {
	case *ipamv1alpha1.IPAllocation:
		if held := b.of(ledger.ClaimID(o.AllocationID())); held != nil {
			held.recorded = true
		}
		return
	case *ipamv1alpha1.IPClaim:
		ids = append(ids, ledger.ClaimID(o.Status.AllocationID))
	}
	for _, id := range ids {
		if held := b.blocks.of(id); held != nil {
			held.held = true
		}
		if p := b.held[id]; p != nil {
			p.kept = true
		}
	}
	if p := b.pools[ledger.PoolID(object.GetUID())]; p != nil {
		p.seen = true
	}
}

func (b *books) seePool(cluster ledger.ClusterName, object *ipamv1alpha1.IPPool) {
	id, _ := catalog.IDOf(b, object, cluster)
	p := b.pools[id]
	shown := object.Status.AllocatedCIDR
	if p == nil {
		if (shown != "" || object.Spec.ClassRef != nil) && object.DeletionTimestamp.IsZero() {
			b.find(Finding{
				Kind: PoolNotRegistered, Cluster: cluster, Name: object.Name, UID: string(object.UID), Prefix: shown,
				Message: "the IPPool shows this CIDR, and the ledger does not know the pool",
			})
		}
		return
	}
	p.seen = true
	if held := b.blocks.of(ledger.ClaimID(p.ID)); held != nil {
		held.held = true
	}
	if p.Cluster != cluster || p.Name != object.Name || shown != "" && shown != p.CIDR.String() {
		b.find(aboutPool(PoolMismatch, p.Pool, "the IPPool is %s of workspace %s and shows %s", object.Name, cluster, shown))
	}
	b.compareFigures(p, object)
}

func (b *books) compareFigures(p *booked, object *ipamv1alpha1.IPPool) {
	figures := object.Status.Capacity
	if figures == nil || !object.DeletionTimestamp.IsZero() {
		return
	}
	total, allocated, available := b.capacity(p)
	if figures.Total == total && figures.Allocated == allocated && figures.Available == available {
		return
	}
	b.find(aboutPool(CapacityMismatch, p.Pool,
		"status.capacity says %s total, %s allocated, %s available; the ledger %s, %s, %s",
		figures.Total, figures.Allocated, figures.Available, total, allocated, available).by(LookAtPool))
}

// end adds the findings that need all objects: blocks and pools without their objects, and overdue cooldowns and
// leases.
func (b *books) end() {
	for held := range b.blocks.all() {
		b.judge(held)
	}
	for _, p := range b.pools {
		switch {
		case p.Derived != nil:
			b.judgeDerived(p)
		case !p.seen && p.State == ledger.PoolOpen:
			b.find(aboutPool(PoolWithoutObject, p.Pool, "its IPPool does not exist").by(ConfirmRelease))
		}
	}
}

// judge finds the claim or IPAllocation that a block lacks, and a cooldown or lease that is overdue.
func (b *books) judge(held *block) {
	if held.State == ledger.Cooling {
		if b.now.Sub(held.Until) > overdue {
			b.find(about(BlockOverdue, held.Block, "its cooldown was over at %s, and nobody has ended it",
				held.Until.Format(time.RFC3339)))
		}
		return
	}
	child := b.pools[ledger.PoolID(held.Holder.Claim)]
	if ledger.IsDerived(held.Holder.Claim) {
		if child == nil {
			b.find(about(BlockWithoutClaim, held.Block, "the ledger does not have the pool that holds the block"))
		}
		return
	}
	if held.Holder.Namespace == "" {
		if !held.held && (child == nil || child.State == ledger.PoolOpen) {
			b.find(about(BlockWithoutClaim, held.Block, "the child pool that holds the block does not exist").by(ConfirmRelease))
		}
		return
	}
	switch {
	case !held.held && b.young(held.Block):
		// The block is freed once the CREATE can no longer succeed.
	case held.State == ledger.Retained && !held.Until.IsZero() && b.now.Sub(held.Until) > overdue:
		b.find(about(LeaseOverdue, held.Block, "its lease was over at %s, and the block is there still",
			when(held.Until)).by(ConfirmRelease))
	case held.State == ledger.Retained && !held.recorded:
		b.find(about(BlockWithoutRecord, held.Block,
			"the block is retained, and the IPAllocation it lives by does not exist").by(ConfirmRelease))
	case !held.held && held.State == ledger.Bound:
		b.find(about(BlockWithoutClaim, held.Block, "the claim that holds the block does not exist").by(ConfirmRelease))
	case held.held && !held.leaving && !held.recorded:
		b.find(about(BlockWithoutRecord, held.Block, "the claim has no IPAllocation").by(LookAtClaim))
	}
}

// judgeDerived finds the missing IPPool and the missing claim of a derived pool. The controller makes a missing IPPool
// again. A closed pool rightly has no IPPool, and only a pool without blocks can be closed. The ledger does not record
// that a pool is closed, so for a pool without blocks a missing IPPool is no finding.
func (b *books) judgeDerived(p *booked) {
	if ledger.IsAddressSpace(p.ID) {
		return
	}
	lived := p.lived || slices.ContainsFunc(b.apart[p.ID], func(s *booked) bool { return s.lived })
	if lived && !p.seen && p.State == ledger.PoolOpen {
		b.find(aboutPool(PoolWithoutObject, p.Pool, "its IPPool does not exist; the controller makes it again"))
	}
	h := p.Derived.Holder
	if h.Claim == "" || p.kept || b.young(ledger.Block{Holder: h, BoundAt: p.Derived.HeldSince}) {
		return
	}
	b.find(Finding{
		Kind: BlockWithoutClaim, Cluster: h.Cluster, Namespace: h.Namespace, Name: h.Name, UID: string(h.Claim),
		Prefix: p.CIDR.String(), Message: fmt.Sprintf("the claim that holds pool %s does not exist", p.Name),
	}.by(ConfirmRelease))
}

// overdue is the age by which a block that was bound for a CREATE has a claim, or is free. A sweep hints at the block
// within half a minute after promise.Grace, and some live reads follow. A cooldown or lease that ended longer ago than
// that should be settled, too.
const overdue = promise.Grace + time.Minute

// young reports whether a block was bound for a CREATE, less than overdue ago. Its claim may still be stored, or the
// block is about to be freed.
func (b *books) young(held ledger.Block) bool {
	return ledger.IsAllocationID(held.Holder.Claim) && b.now.Sub(held.BoundAt) < overdue
}
