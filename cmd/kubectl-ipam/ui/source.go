package ui

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/reach"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// pageSource reads what the pages show, as the commands do.
type pageSource struct{ *session.Session }

// Read implements [page.Source]. What the caller may not read is left out.
func (s pageSource) Read(ctx context.Context) (*page.Snapshot, error) {
	r, err := reach.Of(ctx, s.Session)
	if err != nil {
		return nil, err
	}
	pools, err := r.Pools(ctx)
	if exit.IgnoreUnseen(err) != nil {
		return nil, err
	}
	allocations, err := r.Allocations(ctx)
	if err != nil {
		return nil, err
	}
	claims, err := r.Claims(ctx)
	if err != nil {
		return nil, err
	}
	classes := &ipamv1alpha1.IPClassList{}
	if err := r.List(ctx, classes); exit.IgnoreUnseen(err) != nil {
		return nil, err
	}
	slices.SortFunc(classes.Items, func(a, b ipamv1alpha1.IPClass) int { return cmp.Compare(a.Name, b.Name) })
	snapshot := &page.Snapshot{
		Workspace: r.Path, Namespace: r.Namespace, Tenants: r.SeesTenants, Classes: classes.Items, Pools: poolsOf(r, pools, allocations),
	}
	for i := range claims {
		snapshot.Claims = append(snapshot.Claims, page.Claim{IPClaim: &claims[i], Workspace: r.Workspace(&claims[i])})
	}
	return snapshot, nil
}

// poolsOf returns the pools that the caller can read, or holds blocks of.
func poolsOf(r *reach.View, pools []ipamv1alpha1.IPPool, allocations []ipamv1alpha1.IPAllocation) []page.Pool {
	held := r.AllHoldings(pools, allocations)
	shown := make([]page.Pool, 0, len(pools))
	for i := range pools {
		key := reach.Key{Workspace: r.Workspace(&pools[i]), Name: pools[i].Name}
		shown = append(shown, page.Pool{Name: key.Name, Workspace: key.Workspace, Object: &pools[i], Held: held[key]})
		delete(held, key)
	}
	others := slices.SortedFunc(maps.Keys(held), func(a, b reach.Key) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Name, b.Name))
	})
	for _, key := range others {
		shown = append(shown, page.Pool{Name: key.Name, Workspace: key.Workspace, Held: held[key]})
	}
	return shown
}

// Preview implements [page.Source].
func (s pageSource) Preview(ctx context.Context, claim *ipamv1alpha1.IPClaim) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	return c.Create(ctx, claim, client.DryRunAll)
}
