package pool

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// estate is what goes with a pool.
type estate struct {
	claims []client.Object
	// retained are the allocations that stay when their claims are gone.
	retained []client.Object
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
	said := []string{"pool " + root.Name}
	if root.Status.AllocatedCIDR != "" {
		said[0] += " (" + root.Status.AllocatedCIDR + ")"
	}
	if below := len(e.pools) - 1; below > 0 {
		said = append(said, fmt.Sprintf("%d carved from it", below))
	}
	if len(e.claims) > 0 {
		said = append(said, plural.Of(len(e.claims), "claim", "claims"))
	}
	if len(e.retained) > 0 {
		said = append(said, plural.Of(len(e.retained), "retained block", "retained blocks"))
	}
	return strings.Join(said, ", ")
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
			e.claims = append(e.claims, claim)
		}
	}
	for i := range records.Items {
		if record := &records.Items[i]; (record.Spec.ClaimRef == nil || record.Spec.ReclaimPolicy == ipamv1alpha1.ReclaimRetain) && e.has(&record.Spec.PoolRef) {
			e.retained = append(e.retained, record)
		}
	}
	return e, nil
}

// add adds a pool behind all those below it, each once: a pool may be one of its own ancestors.
func (e *estate) add(pool *ipamv1alpha1.IPPool, all []ipamv1alpha1.IPPool) {
	e.names[pool.Name] = true
	for i := range all {
		ref := all[i].Parent()
		if ref != nil && ref.ProjectRef == nil && ref.Name == pool.Name && !e.names[all[i].Name] {
			e.add(&all[i], all)
		}
	}
	e.pools = append(e.pools, pool)
}
