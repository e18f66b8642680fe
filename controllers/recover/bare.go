package recover

import (
	"context"
	"errors"
	"net/netip"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
)

// bare reports whether an IPPool says that it is the IPPool of a derived pool, and shows no CIDR. The system writes the
// status of such an IPPool a moment after its CREATE.
func bare(object *ipamv1alpha1.IPPool) bool {
	return object.Spec.ClassRef != nil && object.Status.AllocatedCIDR == ""
}

// learn looks at the bare IPPools, after all others. The spec of a bare IPPool has the parent and the prefix length of
// its pool, so an IPAllocation with a block of the pool tells where the pool lies. If the pool were not restored there,
// others could get its addresses. Only the system writes IPAllocations, so learn believes them. It lists them only if
// there are bare IPPools.
func (w *world) learn(ctx context.Context) error {
	if len(w.bare) == 0 {
		return nil
	}
	var failed error
	err := w.Record.Each(ctx, &ipamv1alpha1.IPAllocationList{}, func(cluster ledger.ClusterName, object client.Object) {
		if r := readRecord(cluster, object); failed == nil && r.published() && r.fault == nil {
			failed = w.locate(ctx, cluster, r.pool, r.request.Exact)
		}
	})
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	for at, object := range w.bare { // no IPAllocation tells where its pool lies
		if err := w.look(ctx, at.cluster, object); err != nil {
			return err
		}
	}
	return nil
}

// locate looks at the bare IPPool that a reference from a workspace names, and at the bare IPPools above it. It looks
// at each as if the IPPool's status showed the CIDR that contains this block.
func (w *world) locate(
	ctx context.Context, from ledger.ClusterName, ref ipamv1alpha1.PoolRef, block netip.Prefix,
) error {
	in := []ledger.ClusterName{from}
	if ref.ProjectRef != nil {
		in = w.clusters[ref.ProjectRef.Name]
	}
	for _, cluster := range in {
		at := place{cluster, ref.Name}
		object, err := w.located(ctx, cluster, w.bare[at], block)
		if err != nil {
			return err
		}
		if object == nil {
			continue
		}
		delete(w.bare, at)
		if err := w.look(ctx, cluster, object); err != nil {
			return err
		}
		if err := w.locate(ctx, cluster, *object.Parent(), block); err != nil {
			return err
		}
	}
	return nil
}

// located returns a bare IPPool with the status that the system would have written for a pool with this block. That
// status names no ledger, so the pool counts as lost. located returns nil if the IPPool's label does not fit its class
// and scope, because the system has not made such an IPPool. It also returns nil if the class is gone, because then
// nobody knows in which address space the pool lies.
func (a *Adopter) located(
	ctx context.Context, owner ledger.ClusterName, object *ipamv1alpha1.IPPool, block netip.Prefix,
) (*ipamv1alpha1.IPPool, error) {
	if object == nil || object.Parent() == nil || object.Spec.Length() > block.Bits() {
		return nil, nil
	}
	cidr, err := block.Addr().Prefix(object.Spec.Length())
	if err != nil {
		return nil, nil //nolint:nilerr // no length of a prefix, so the system has not made it
	}
	class, err := a.class(ctx, object.Spec.ClassRef.Name)
	if errors.Is(err, errUnclassed) {
		return nil, nil
	}
	for _, id := range catalog.DerivedIDs(object, owner) {
		digest := ledger.Digest(id)
		if err == nil && object.Labels[ipamv1alpha1.LabelScopeDigest] == ipamv1alpha1.LabelValue(digest) {
			object = object.DeepCopy()
			object.Status = ipamv1alpha1.IPPoolStatus{
				AllocatedCIDR: cidr.String(), ScopeDigest: digest, UniqueWithin: class.Spec.UniqueWithin,
				Ledger: &ipamv1alpha1.PoolLedger{},
			}
			return object, nil
		}
	}
	return nil, err
}
