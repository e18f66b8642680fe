package main

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page"
)

// pageSource reads what the pages show, as the commands do.
type pageSource struct{ *session }

// Read implements [page.Source]. What the caller may not read is left out.
func (s pageSource) Read(ctx context.Context) (*page.Snapshot, error) {
	r, err := s.reach(ctx)
	if err != nil {
		return nil, err
	}
	pools, err := r.pools(ctx)
	if ignoreUnseen(err) != nil {
		return nil, err
	}
	allocations, err := r.allocations(ctx)
	if err != nil {
		return nil, err
	}
	claims, err := r.claims(ctx)
	if err != nil {
		return nil, err
	}
	classes := &ipamv1alpha1.IPClassList{}
	if err := r.List(ctx, classes); ignoreUnseen(err) != nil {
		return nil, err
	}
	snapshot := &page.Snapshot{
		Workspace: r.path, Namespace: r.namespace, Tenants: len(r.tenants) > 0, Classes: classes.Items, Pools: poolsOf(r, pools, allocations),
	}
	for i := range claims {
		snapshot.Claims = append(snapshot.Claims, page.Claim{IPClaim: &claims[i], Workspace: r.workspace(&claims[i])})
	}
	return snapshot, nil
}

// poolsOf are the pools that the caller may see, and those of which he has blocks.
func poolsOf(r *reach, pools []ipamv1alpha1.IPPool, allocations []ipamv1alpha1.IPAllocation) []page.Pool {
	held := r.allHoldings(pools, allocations)
	shown := make([]page.Pool, 0, len(pools))
	for i := range pools {
		key := poolKey{r.workspace(&pools[i]), pools[i].Name}
		shown = append(shown, page.Pool{Name: key.name, Workspace: key.workspace, Object: &pools[i], Held: held[key]})
		delete(held, key)
	}
	others := slices.SortedFunc(maps.Keys(held), func(a, b poolKey) int {
		return cmp.Or(cmp.Compare(a.workspace, b.workspace), cmp.Compare(a.name, b.name))
	})
	for _, key := range others {
		shown = append(shown, page.Pool{Name: key.name, Workspace: key.workspace, Held: held[key]})
	}
	return shown
}

// Preview implements [page.Source].
func (s pageSource) Preview(ctx context.Context, claim *ipamv1alpha1.IPClaim) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	return c.Create(ctx, claim, client.DryRunAll)
}
