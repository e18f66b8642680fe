package recover

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// record has the facts of a block that a claim or an IPAllocation shows, and the ledger's block or pool of the same
// holder.
type record struct {
	name    string // of the object
	pool    ipamv1alpha1.PoolRef
	of      *pool          // the pool that the object names; nil until it is found
	request ledger.Request // for the holder, with the shown block as Exact
	state   ledger.BlockState
	text    string // the prefix, as the object shows it
	fault   error  // why the text is no prefix of a block
	claimed bool   // a claim shows it
	ranged  bool   // the object is a claim that shows a range
	// scope has the objects within which the block is unique. For a claim it has all objects that the claim names.
	scope ipamv1alpha1.Scope
	// The UID and phase of a claim, and whether it is being deleted.
	uid     string
	phase   ipamv1alpha1.ClaimPhase
	leaving bool

	held   *block  // the block of the holder; nil: none, or a cooling one
	holds  *booked // the pool that the holder of a range holds; nil: none
	hidden bool    // the block of the holder cannot be read
}

// readRecord returns the facts that an IPAllocation or a claim shows. The ledger's facts on the holder are added by
// join.
func readRecord(cluster ledger.ClusterName, object client.Object) record {
	r := record{name: object.GetName(), state: ledger.Bound}
	h := ledger.Holder{Cluster: cluster, Namespace: object.GetNamespace(), Name: object.GetName()}
	switch o := object.(type) {
	case *ipamv1alpha1.IPAllocation:
		h.Name, _ = o.HeldBy()
		h.Claim = ledger.ClaimID(o.AllocationID())
		r.pool, r.text, r.scope = o.Spec.PoolRef, o.Status.AllocatedCIDR, o.Spec.Scope
		r.request.Class, r.request.Policy = o.Spec.ClassName, ledger.ReclaimPolicy(o.Spec.ReclaimPolicy)
		if o.Spec.ClaimRef == nil {
			r.state, r.request.Until = ledger.Retained, o.ExpiresAt()
		}
	case *ipamv1alpha1.IPClaim:
		h.Claim = promise.IDOf(cluster, o)
		if o.Status.PoolRef != nil {
			r.pool = *o.Status.PoolRef
		}
		r.text, r.scope = o.Status.AllocatedCIDR, o.Spec.Scope
		r.request.Class, r.request.Policy = o.Status.ClassName, ledger.ReclaimPolicy(o.Spec.ReclaimPolicy)
		r.claimed, r.ranged = true, o.Spec.Target == ipamv1alpha1.TargetScopeRange
		r.uid, r.phase, r.leaving = string(o.UID), o.Status.Phase, !o.DeletionTimestamp.IsZero()
	}
	r.request.Holder, r.request.Since = h, object.GetCreationTimestamp().Time
	if r.request.Exact, r.fault = netip.ParsePrefix(r.text); r.fault == nil &&
		r.request.Exact != r.request.Exact.Masked() {
		r.fault = fmt.Errorf("%s is not the first address of a block", r.text)
	}
	return r
}

// published reports whether the object shows a CIDR and its holder, and, if it is a claim, a pool.
func (r *record) published() bool {
	return r.text != "" && r.request.Holder.Claim != "" && (!r.claimed || r.pool.Name != "")
}

// within returns the record, moved from its pool to the address space that the pool has for a scope. Without a scope
// the record stays in the pool itself.
func (r record) within(scope ipamv1alpha1.Scope) record {
	if len(scope) > 0 {
		space, of := &resolve.Space{Workspace: r.request.Holder.Tenant(), Scope: resolve.LedgerScope(scope)}, r.request.Pool
		r.request.Pool, r.request.Begins = space.In(of), space.Begins(of)
	}
	return r
}

// lacks reports whether the ledger lacks the block or range that the record shows. A block to which no claim's key
// leads counts as lacking, and so does a range whose pool is draining.
func (r *record) lacks() bool {
	if r.ranged {
		return r.holds == nil || r.holds.CIDR != r.request.Exact || r.holds.State != ledger.PoolOpen
	}
	return r.held == nil || !r.held.keyed || r.held.Prefix != r.request.Exact
}

// differs returns how the ledger differs from the record. The kind is empty if nothing differs.
func (r *record) differs() Finding {
	switch {
	case r.ranged && r.holds == nil, !r.ranged && r.held == nil:
		return r.absent()
	case r.ranged:
		if r.text == "" || r.text == r.holds.CIDR.String() {
			return Finding{}
		}
		return r.finding(ClaimMismatch, "the claim holds pool %s, which is %s", r.holds.Name, r.holds.CIDR).by(LookAtClaim)
	case r.claimed:
		return r.claimDiffers()
	default:
		return r.allocationDiffers()
	}
}

// absent reports that the ledger has nothing for the holder. It returns no finding for a claim without an address, nor
// for a holder whose block cannot be read, which is a finding of kind Unreadable already.
func (r *record) absent() Finding {
	switch {
	case r.hidden, r.claimed && r.text == "":
		return Finding{}
	case r.ranged:
		return r.finding(ClaimWithoutBlock, "the claim shows this range, and holds no pool").by(LookAtClaim)
	case r.claimed:
		return r.finding(ClaimWithoutBlock, "the claim shows this address, and the ledger has no block of it").by(LookAtClaim)
	}
	f := r.finding(RecordWithoutBlock, "IPAllocation %s records this block, and the ledger does not have it", r.name)
	if r.state == ledger.Bound {
		f = f.by(ConfirmRelease) // a retained IPAllocation is the only evidence left of its holder
	}
	return f
}

// claimDiffers compares a claim with its block.
func (r *record) claimDiffers() Finding {
	h, is := r.request.Holder, r.held.Holder
	switch {
	case is.Cluster != h.Cluster || is.Namespace != h.Namespace || is.Name != h.Name:
		return about(ClaimMismatch, r.held.Block, "the claim of this UID is %s/%s of workspace %s",
			h.Namespace, h.Name, h.Cluster)
	case r.held.State == ledger.Retained:
		return about(ClaimMismatch, r.held.Block, "the block is retained, and its claim still exists")
	case r.text == "" && !r.leaving:
		return about(ClaimMismatch, r.held.Block, "the claim shows no address; it is %s", r.phase).by(LookAtClaim)
	case r.text != "" && r.text != r.held.Prefix.String():
		return about(ClaimMismatch, r.held.Block, "the claim shows %s", r.text).by(LookAtClaim)
	}
	return Finding{}
}

// allocationDiffers compares an IPAllocation with its block.
func (r *record) allocationDiffers() Finding {
	h, is := r.request.Holder, r.held.Holder
	names := ipamv1alpha1.AllocationNames(is.Namespace, is.Name)
	switch {
	case is.Cluster != h.Cluster || is.Namespace != h.Namespace || !slices.Contains(names[:], r.name):
		return about(RecordMismatch, r.held.Block, "its record is IPAllocation %s/%s of workspace %s",
			h.Namespace, r.name, h.Cluster)
	case r.text != r.held.Prefix.String():
		return about(RecordMismatch, r.held.Block, "IPAllocation %s records %s", r.name, r.text)
	case r.state != r.held.State:
		return about(RecordMismatch, r.held.Block, "the block is %s, and IPAllocation %s does not say so",
			r.held.State, r.name).by(ConfirmRelease)
	case r.state == ledger.Retained && !r.request.Until.Equal(r.held.Until):
		return about(RecordMismatch, r.held.Block, "IPAllocation %s expires at %q, the block at %q",
			r.name, when(r.request.Until), when(r.held.Until)).by(ConfirmRelease)
	case r.state == ledger.Bound && r.request.Policy != r.held.Policy:
		return about(RecordMismatch, r.held.Block, "IPAllocation %s says %s when the claim is deleted, the ledger %s",
			r.name, r.request.Policy, r.held.Policy)
	}
	return Finding{}
}

// finding makes a finding on the record itself.
func (r *record) finding(kind Kind, format string, args ...any) Finding {
	h := r.request.Holder
	f := Finding{
		Kind: kind, Cluster: h.Cluster, Namespace: h.Namespace, Name: h.Name, UID: string(h.Claim), Prefix: r.text,
		Message: fmt.Sprintf(format, args...),
	}
	if r.claimed {
		f.UID = r.uid
	}
	return f
}

// when formats a time as RFC 3339. It returns an empty string for the zero time.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
