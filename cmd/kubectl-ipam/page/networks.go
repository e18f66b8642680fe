package page

import (
	"cmp"
	"net/http"
	"slices"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
)

// network is a scope of a workspace: its pools, and how many blocks are held for it.
type network struct {
	Scope, Workspace string
	Pools            []networkPool
	Blocks           int
	// Link leads to the blocks.
	Link string
}

// networkPool is a pool that is for one scope.
type networkPool struct {
	*Pool
	// Class made the pool; empty if somebody has written it.
	Class string
	// Range names the claim that holds the pool, and RangeLink leads to it; empty: none does.
	Range, RangeLink string
}

// scoped identifies a network.
type scoped struct{ scope, workspace string }

func (s *server) networks(r *http.Request, snapshot *Snapshot) (view, error) {
	all := networksOf(snapshot)
	return view{Template: "networks.html", Title: "Networks", Data: paging(r, all)}, nil
}

// networksOf returns the scopes that pools and claims name. One comes before those that have it and more.
func networksOf(snapshot *Snapshot) []network {
	found := map[scoped]*network{}
	of := func(scope, workspace string) *network {
		key := scoped{scope, workspace}
		if found[key] == nil {
			found[key] = &network{Scope: scope, Workspace: workspace, Link: searchFor(scope)}
		}
		return found[key]
	}
	for i := range snapshot.Pools {
		if p := &snapshot.Pools[i]; p.Scope() != "" {
			n := of(p.Scope(), p.Workspace)
			n.Pools = append(n.Pools, networkPool{Pool: p, Class: madeBy(p.Object)})
		}
	}
	for _, c := range snapshot.Claims {
		scope := facts.Scope(c.Spec.Scope)
		switch {
		case scope == "":
		case c.Spec.Target == ipamv1alpha1.TargetScopeRange:
			of(scope, c.Workspace).heldBy(c)
		case !c.Waits():
			of(scope, c.Workspace).Blocks++
		}
	}
	all := make([]network, 0, len(found))
	for _, n := range found {
		slices.SortFunc(n.Pools, func(a, b networkPool) int { return a.Window().Compare(b.Window()) })
		all = append(all, *n)
	}
	slices.SortFunc(all, func(a, b network) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Scope, b.Scope))
	})
	return all
}

// heldBy notes a range claim beside the pool that it holds.
func (n *network) heldBy(c Claim) {
	ref := facts.Pool(c.IPClaim)
	for i := range n.Pools {
		if n.Pools[i].Name == ref.Name {
			n.Pools[i].Range, n.Pools[i].RangeLink = c.Namespace+"/"+c.Name, waiting{Claim: c}.Path()
		}
	}
}

// madeBy names the class that made a pool; empty if somebody has written it.
func madeBy(p *ipamv1alpha1.IPPool) string {
	if p.Spec.ClassRef == nil {
		return ""
	}
	return p.Spec.ClassRef.Name
}
