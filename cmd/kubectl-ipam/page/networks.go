package page

import (
	"cmp"
	"net/http"
	"slices"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
)

// network is a scope in a workspace, with its pools and the number of blocks held in it.
type network struct {
	Scope, Workspace string
	Pools            []networkPool
	Blocks           int
	// Link leads to the blocks of the network.
	Link string
}

// networkPool is a pool for a scope.
type networkPool struct {
	*Pool
	// Class is the class that made the pool; empty if a user has written it.
	Class string
	// Range names the claim that holds the pool, and RangeLink leads to the claim; empty: no claim does.
	Range, RangeLink string
}

// scoped identifies a network.
type scoped struct{ scope, workspace string }

func (s *server) networks(r *http.Request, snapshot *Snapshot) (view, error) {
	all := networksOf(snapshot)
	return view{Template: "networks.html", Title: "Networks", Data: paging(r, all)}, nil
}

// networksOf returns the scopes of pools and claims. A scope comes before those that have more objects.
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
			n.Pools = append(n.Pools, networkPool{Pool: p, Class: p.Range()})
		}
	}
	for _, c := range snapshot.Claims {
		scope := snapshot.scopeOf(c)
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

// scopeOf returns the scope of the pool or address space that has the block of a claim, because the claim may name more
// objects. If the caller may not see the pool, it returns the scope of the claim.
func (s *Snapshot) scopeOf(c Claim) string {
	ref := facts.Pool(c.IPClaim)
	workspace := c.Workspace
	if in := facts.Workspace(ref); in != "" {
		workspace = s.own(in)
	}
	p, seen := s.pool(workspace, ref.Name)
	if seen && p.Scope() != "" {
		return p.Scope()
	}
	if seen {
		for _, h := range p.Held {
			if h.Name == c.Namespace+"/"+c.Name && h.Workspace == c.Workspace && h.Scope != "" {
				return h.Scope
			}
		}
	}
	return facts.Scope(c.Spec.Scope)
}

// heldBy notes a range claim at the pool that the claim holds.
func (n *network) heldBy(c Claim) {
	ref := facts.Pool(c.IPClaim)
	for i := range n.Pools {
		if n.Pools[i].Name == ref.Name {
			n.Pools[i].Range, n.Pools[i].RangeLink = c.Namespace+"/"+c.Name, waiting{Claim: c}.Path()
		}
	}
}
