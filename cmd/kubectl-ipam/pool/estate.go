package pool

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// estate is what goes with a pool.
type estate struct {
	// blocks are its claims and retained allocations.
	blocks []client.Object
	// pools are those carved from it, from the leaves on, and itself at the end.
	pools []*ipamv1alpha1.IPPool
	// names are those of the pools.
	names map[string]bool
}

// has reports whether a reference is to one of the pools.
func (e *estate) has(ref *ipamv1alpha1.PoolRef) bool {
	return ref != nil && ref.ProjectRef == nil && e.names[ref.Name]
}

func (e *estate) String() string {
	root := e.pools[len(e.pools)-1]
	said := "pool " + root.Name
	if root.Status.AllocatedCIDR != "" {
		said += " (" + root.Status.AllocatedCIDR + ")"
	}
	if below := len(e.pools) - 1; below > 0 {
		said += fmt.Sprintf(", %d carved from it", below)
	}
	if blocks := len(e.blocks); blocks > 0 {
		said += fmt.Sprintf(" and %d held from there", blocks)
	}
	return said
}

// estateOf finds what a pool holds in its own workspace.
func estateOf(ctx context.Context, c client.Client, root *ipamv1alpha1.IPPool) (*estate, error) {
	pools, claims, records := &ipamv1alpha1.IPPoolList{}, &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPAllocationList{}
	for _, list := range []client.ObjectList{pools, claims, records} {
		if err := c.List(ctx, list); err != nil {
			return nil, err
		}
	}
	e := &estate{names: map[string]bool{}}
	e.add(root, pools.Items)
	for i := range claims.Items {
		if claim := &claims.Items[i]; e.has(claim.Status.PoolRef) || e.has(claim.Spec.PoolRef) {
			e.blocks = append(e.blocks, claim)
		}
	}
	for i := range records.Items {
		if record := &records.Items[i]; record.Spec.ClaimRef == nil && e.has(&record.Spec.PoolRef) {
			e.blocks = append(e.blocks, record)
		}
	}
	return e, nil
}

// releaseBlocks deletes the claims and the retained allocations, then those that are retained from
// these claims: the controller retains a block when its claim is gone.
func (e *estate) releaseBlocks(ctx context.Context, c client.WithWatch) error {
	released := map[types.UID]bool{}
	for _, object := range e.blocks {
		uid := object.GetUID()
		if err := c.Delete(ctx, object, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return err
		}
		released[uid] = true
	}
	if len(released) == 0 {
		return nil
	}
	records := &ipamv1alpha1.IPAllocationList{}
	if err := c.List(ctx, records); err != nil {
		return err
	}
	for i := range records.Items {
		record := &records.Items[i]
		holder := record.Spec.ClaimRef
		if holder != nil && (!released[holder.UID] || record.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimRetain) || !e.has(&record.Spec.PoolRef) {
			continue
		}
		if err := deleteRetained(ctx, c, record); err != nil {
			return err
		}
	}
	return nil
}

// deleteRetained deletes the allocation of a claim that is gone, once it is retained: before, it
// belongs to the claim.
func deleteRetained(ctx context.Context, c client.WithWatch, record *ipamv1alpha1.IPAllocation) error {
	err := ipamclient.Until(ctx, c, record, func() bool { return record.Spec.ClaimRef == nil })
	switch {
	case errors.Is(err, ipamclient.ErrGone):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return exit.Fail(exit.Unavailable, "run the command again; kubectl ipam check says whether the controller runs",
			"the block %s of a claim that was deleted is not retained yet, and cannot be released", record.Status.AllocatedCIDR)
	case err != nil:
		return err
	}
	return client.IgnoreNotFound(c.Delete(ctx, record, client.Preconditions{UID: &record.UID}))
}

// add adds a pool behind all those below it, each once: a pool may be one of its own ancestors.
func (e *estate) add(pool *ipamv1alpha1.IPPool, all []ipamv1alpha1.IPPool) {
	e.names[pool.Name] = true
	for i := range all {
		ref := all[i].Spec.ParentPoolRef
		if ref != nil && ref.ProjectRef == nil && ref.Name == pool.Name && !e.names[all[i].Name] {
			e.add(&all[i], all)
		}
	}
	e.pools = append(e.pools, pool)
}
