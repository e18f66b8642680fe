package verify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// World is every workspace, read live. *live.Reader is one.
type World interface {
	// Each calls visit for every object of the kind of list. It fails if it
	// cannot tell all of them.
	Each(ctx context.Context, list client.ObjectList, visit func(ledger.ClusterName, client.Object)) error
	// ExportGone reports whether the platform has no APIExport: then no workspace can be read.
	ExportGone(ctx context.Context) (bool, error)
	// Replaced returns why the APIExport shows none of the objects that the ledger knows; empty: it shows them.
	Replaced(ctx context.Context) (why string, err error)
}

// comparison is that of the books with the objects.
type comparison struct {
	*books
}

// compare finds what differs between the books and the objects. The ledger was
// read first: what is bound from then on has objects without a block, which the
// next look settles. Claims come before records: a record that is written in
// between is not missed.
func (c comparison) compare(ctx context.Context, world World) error {
	for _, list := range []client.ObjectList{&ipamv1alpha1.IPPoolList{}, &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPAllocationList{}} {
		if err := world.Each(ctx, list, c.see); err != nil {
			return fmt.Errorf("read what is published: %w", err)
		}
	}
	for held := range c.blocks.all() {
		c.judge(held)
	}
	for _, p := range c.pools {
		switch {
		case p.Derived != nil:
			c.judgeDerived(p)
		case !p.seen && p.State == ledger.PoolOpen:
			c.find(aboutPool(PoolWithoutObject, p.Pool, "its IPPool does not exist").by(ConfirmRelease))
		}
	}
	return nil
}

// see compares an object with the books.
func (c comparison) see(cluster ledger.ClusterName, obj client.Object) {
	if odd := decode.Unreadable(obj); odd != nil {
		c.seeOdd(cluster, obj, odd)
		return
	}
	switch obj := obj.(type) {
	case *ipamv1alpha1.IPPool:
		c.seePool(cluster, obj)
	case *ipamv1alpha1.IPClaim:
		c.seeClaim(cluster, obj)
	case *ipamv1alpha1.IPAllocation:
		c.seeRecord(cluster, obj)
	}
}

// seeOdd sees an object that cannot be read. It exists, and so does what lives by it.
func (c comparison) seeOdd(cluster ledger.ClusterName, obj client.Object, odd error) {
	c.find(Finding{
		Kind: Unreadable, Cluster: cluster, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: string(obj.GetUID()), Message: odd.Error(),
	})
	if record, ok := obj.(*ipamv1alpha1.IPAllocation); ok {
		if held := c.of(record.AllocationID()); held != nil {
			held.recorded = true
		}
		return
	}
	ids := []ledger.ClaimID{ledger.ClaimID(obj.GetUID())}
	if claim, ok := obj.(*ipamv1alpha1.IPClaim); ok {
		ids = append(ids, ledger.ClaimID(claim.Status.AllocationID))
	}
	for _, id := range ids {
		if held := c.blocks.of(id); held != nil {
			held.held = true
		}
		if p := c.holds(id); p != nil {
			p.kept = true
		}
	}
	if p := c.pools[ledger.PoolID(obj.GetUID())]; p != nil {
		p.seen = true
	}
}

func (c comparison) seePool(cluster ledger.ClusterName, obj *ipamv1alpha1.IPPool) {
	id, _ := catalog.IDOf(c, obj, cluster)
	p := c.pools[id]
	shown := obj.Status.AllocatedCIDR
	if p == nil {
		if (shown != "" || obj.Spec.ClassRef != nil) && obj.DeletionTimestamp.IsZero() {
			c.find(Finding{
				Kind: PoolNotRegistered, Cluster: cluster, Name: obj.Name, UID: string(obj.UID), Prefix: shown,
				Message: "the IPPool shows this CIDR, and the ledger does not know the pool",
			})
		}
		return
	}
	p.seen = true
	if held := c.blocks.of(ledger.ClaimID(p.ID)); held != nil {
		held.held = true
	}
	if p.Cluster != cluster || p.Name != obj.Name || shown != "" && shown != p.CIDR.String() {
		c.find(aboutPool(PoolMismatch, p.Pool, "the IPPool is %s of workspace %s and shows %s", obj.Name, cluster, shown))
	}
	c.compareFigures(p, obj)
}

func (c comparison) compareFigures(p *pool, obj *ipamv1alpha1.IPPool) {
	figures := obj.Status.Capacity
	if figures == nil || !obj.DeletionTimestamp.IsZero() {
		return
	}
	total, allocated, available := c.capacity(p)
	if figures.Total == total && figures.Allocated == allocated && figures.Available == available {
		return
	}
	c.find(aboutPool(CapacityMismatch, p.Pool, "status.capacity says %s total, %s allocated, %s available; the ledger %s, %s, %s",
		figures.Total, figures.Allocated, figures.Available, total, allocated, available).by(LookAtPool))
}

// of is the block that a claim has. One that cools is nobody's.
func (b *books) of(uid types.UID) *block {
	held := b.blocks.of(ledger.ClaimID(uid))
	if held == nil || held.State == ledger.Cooling {
		return nil
	}
	return held
}

func (c comparison) seeClaim(cluster ledger.ClusterName, claim *ipamv1alpha1.IPClaim) {
	if claim.Spec.Target == ipamv1alpha1.TargetScopeRange {
		c.seeRange(cluster, claim)
		return
	}
	shown := claim.Status.AllocatedCIDR
	id := promise.IDOf(cluster, claim)
	held := c.of(types.UID(id))
	if held == nil {
		if shown != "" && !c.hidden[id] {
			c.find(Finding{
				Kind: ClaimWithoutBlock, Cluster: cluster, Namespace: claim.Namespace, Name: claim.Name, UID: string(claim.UID),
				Prefix: shown, Message: "the claim shows this address, and the ledger has no block of it",
			}.by(LookAtClaim))
		}
		return
	}
	held.held, held.leaving = true, !claim.DeletionTimestamp.IsZero()
	h := held.Holder
	switch {
	case h.Cluster != cluster || h.Namespace != claim.Namespace || h.Name != claim.Name:
		c.find(about(ClaimMismatch, held.Block, "the claim of this UID is %s/%s of workspace %s", claim.Namespace, claim.Name, cluster))
	case held.State == ledger.Retained:
		c.find(about(ClaimMismatch, held.Block, "the block is retained, and its claim still exists"))
	case shown == "" && !held.leaving:
		c.find(about(ClaimMismatch, held.Block, "the claim shows no address; it is %s", claim.Status.Phase).by(LookAtClaim))
	case shown != "" && shown != held.Prefix.String():
		c.find(about(ClaimMismatch, held.Block, "the claim shows %s", shown).by(LookAtClaim))
	}
}

func (c comparison) seeRecord(cluster ledger.ClusterName, record *ipamv1alpha1.IPAllocation) {
	name, _ := record.HeldBy()
	uid := record.AllocationID()
	if c.hidden[ledger.ClaimID(uid)] {
		return
	}
	held := c.of(uid)
	if held == nil {
		f := Finding{
			Kind: RecordWithoutBlock, Cluster: cluster, Namespace: record.Namespace, Name: name, UID: string(uid),
			Prefix: record.Status.AllocatedCIDR, Message: fmt.Sprintf("IPAllocation %s records this block, and the ledger does not have it", record.Name),
		}
		if record.Spec.ClaimRef != nil {
			f = f.by(ConfirmRelease) // a retained record is the only proof of the holder that is left
		}
		c.find(f)
		return
	}
	if held.recorded {
		c.find(about(RecordMismatch, held.Block, "IPAllocation %s is a second record of the block", record.Name))
	}
	held.recorded = true
	c.compareRecord(cluster, record, held)
}

func (c comparison) compareRecord(cluster ledger.ClusterName, record *ipamv1alpha1.IPAllocation, held *block) {
	h, retained := held.Holder, record.Spec.ClaimRef == nil
	names := ipamv1alpha1.AllocationNames(h.Namespace, h.Name)
	switch {
	case h.Cluster != cluster || h.Namespace != record.Namespace || !slices.Contains(names[:], record.Name):
		c.find(about(RecordMismatch, held.Block, "its record is IPAllocation %s/%s of workspace %s", record.Namespace, record.Name, cluster))
	case record.Status.AllocatedCIDR != held.Prefix.String():
		c.find(about(RecordMismatch, held.Block, "IPAllocation %s records %s", record.Name, record.Status.AllocatedCIDR))
	case retained != (held.State == ledger.Retained):
		c.find(about(RecordMismatch, held.Block, "the block is %s, and IPAllocation %s does not say so", held.State, record.Name).by(ConfirmRelease))
	case held.State == ledger.Retained && !record.ExpiresAt().Equal(held.Until):
		c.find(about(RecordMismatch, held.Block, "IPAllocation %s expires at %q, the block at %q", record.Name, when(record.ExpiresAt()), when(held.Until)).by(ConfirmRelease))
	case held.State == ledger.Bound && record.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimPolicy(held.Policy):
		c.find(about(RecordMismatch, held.Block, "IPAllocation %s says %s when the claim is deleted, the ledger %s",
			record.Name, record.Spec.ReclaimPolicy, held.Policy))
	}
}

// when is a time as people read it; empty for none.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// judge says what a block lacks.
func (c comparison) judge(held *block) {
	if held.State == ledger.Cooling {
		if c.now.Sub(held.Until) > overdue {
			c.find(about(BlockOverdue, held.Block, "its cooldown was over at %s, and nobody has ended it", held.Until.Format(time.RFC3339)))
		}
		return
	}
	if ledger.IsDerived(held.Holder.Claim) {
		if c.pools[ledger.PoolID(held.Holder.Claim)] == nil {
			c.find(about(BlockWithoutClaim, held.Block, "the ledger does not have the pool that holds the block"))
		}
		return
	}
	if held.Holder.Namespace == "" {
		child := c.pools[ledger.PoolID(held.Holder.Claim)]
		if !held.held && (child == nil || child.State == ledger.PoolOpen) {
			c.find(about(BlockWithoutClaim, held.Block, "the child pool that holds the block does not exist").by(ConfirmRelease))
		}
		return
	}
	switch {
	case !held.held && c.young(held.Block):
		// It is freed by itself once its CREATE cannot succeed any more.
	case held.State == ledger.Retained && !held.Until.IsZero() && c.now.Sub(held.Until) > overdue:
		c.find(about(LeaseOverdue, held.Block, "its lease was over at %s, and the block is there still", when(held.Until)).by(ConfirmRelease))
	case held.State == ledger.Retained && !held.recorded:
		c.find(about(BlockWithoutRecord, held.Block, "the block is retained, and the IPAllocation it lives by does not exist").by(ConfirmRelease))
	case !held.held && held.State == ledger.Bound:
		c.find(about(BlockWithoutClaim, held.Block, "the claim that holds the block does not exist").by(ConfirmRelease))
	case held.held && !held.leaving && !held.recorded:
		c.find(about(BlockWithoutRecord, held.Block, "the claim has no IPAllocation").by(LookAtClaim))
	}
}

// overdue is the age at which the block of a CREATE should have a claim, or be free: a sweep hints at it within half a
// minute after its grace, and some live reads follow. A cooldown that is over so long should have been ended, too.
const overdue = promise.Grace + time.Minute

// young reports whether the CREATE that was answered with a block may still succeed, or the block be about to be freed.
func (c comparison) young(b ledger.Block) bool {
	return ledger.IsAllocationID(b.Holder.Claim) && c.now.Sub(b.BoundAt) < overdue
}
