package page

import (
	"cmp"
	"math/big"
	"net/http"
	"slices"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page/draw"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// tenant is a workspace, with what it holds.
type tenant struct {
	Workspace string
	// Blocks counts blocks of both families. Ranges counts pools that were made for scopes. V4 and V6 count the addresses
	// of blocks and ranges. The addresses of a range count once, whatever lies inside.
	Blocks, Ranges int
	V4, V6         *big.Int
	// Waiting is how many claims of the workspace have no block.
	Waiting int
	// Limits are the limits that bind the workspace, if it holds anything that they count.
	Limits []limit
	Link   string

	byClass, byPool map[string]*big.Int
}

// limit says how much of a limit is used.
type limit struct {
	Of        string
	Held, Max *big.Int
	Meter     meter
}

// tenants shows each workspace that holds addresses, or has a waiting claim. It shows them only to users who can read
// the workspaces of all tenants.
func (s *server) tenants(_ *http.Request, snapshot *Snapshot) (view, error) {
	if !snapshot.Tenants {
		return view{}, &problem{
			http.StatusNotFound, "Tenants are shown to users who can read their workspaces, in the workspace of the platform.",
		}
	}
	found := map[string]*tenant{}
	of := func(workspace string) *tenant {
		if workspace == "" {
			workspace = snapshot.Workspace
		}
		if found[workspace] == nil {
			found[workspace] = &tenant{
				Workspace: workspace, V4: new(big.Int), V6: new(big.Int), Link: searchFor(workspace),
				byClass: map[string]*big.Int{}, byPool: map[string]*big.Int{},
			}
		}
		return found[workspace]
	}
	for i := range snapshot.Pools {
		p := &snapshot.Pools[i]
		for _, h := range p.Held {
			of(h.Workspace).holds(snapshot, p, h)
		}
	}
	for _, c := range snapshot.Claims {
		if c.Waits() {
			of(c.Workspace).Waiting++
		}
	}
	all := make([]*tenant, 0, len(found))
	for _, t := range found {
		t.limit(snapshot)
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *tenant) int {
		return cmp.Or(b.V4.Cmp(a.V4), b.V6.Cmp(a.V6), cmp.Compare(a.Workspace, b.Workspace))
	})
	return view{Template: "tenants.html", Title: "Tenants", Data: all}, nil
}

// holds counts a block of a pool. The block of a child pool counts for the limit of its parent. Its addresses count by
// the blocks inside, unless the system has made the child pool for a scope: then it counts as a whole.
func (t *tenant) holds(snapshot *Snapshot, p *Pool, h space.Holding) {
	size, sum := cidr.Size(h.Block), t.V4
	if h.Block.Addr().Is6() {
		sum = t.V6
	}
	if !h.Slice {
		count(t.byPool, p.Title(), size)
	}
	class := h.Class
	if h.Kind == space.Child {
		child, seen := snapshot.pool(h.Workspace, h.Name)
		if !seen || child.Range() == "" {
			return
		}
		t.Ranges++
		class = child.Range()
	} else {
		t.Blocks++
	}
	count(t.byClass, class, size)
	if inside := p.Range() != "" && p.Workspace == h.Workspace; !inside {
		sum.Add(sum, size)
	}
}

// count adds a number of addresses to the count of a class or pool.
func count(counts map[string]*big.Int, of string, size *big.Int) {
	if counts[of] == nil {
		counts[of] = new(big.Int)
	}
	counts[of].Add(counts[of], size)
}

// limit compares what the workspace holds with the limits of classes and pools.
func (t *tenant) limit(snapshot *Snapshot) {
	add := func(of string, held *big.Int, most ipamv1alpha1.AddressCount) {
		if most.Int() == nil || held == nil {
			return
		}
		t.Limits = append(t.Limits, limit{of, held, most.Int(), shareOf(held, most.Int())})
	}
	for i := range snapshot.Classes {
		add("class "+snapshot.Classes[i].Name, t.byClass[snapshot.Classes[i].Name], snapshot.Classes[i].Spec.MaxPerConsumer)
	}
	for i := range snapshot.Pools {
		if p := &snapshot.Pools[i]; p.Object != nil {
			add("pool "+p.Title(), t.byPool[p.Title()], p.Object.Spec.MaxPerConsumer)
		}
	}
}

// Addresses returns how many addresses the workspace holds, by family.
func (t *tenant) Addresses() string {
	switch {
	case t.V6.Sign() == 0:
		return draw.Count(t.V4)
	case t.V4.Sign() == 0:
		return draw.Count(t.V6)
	default:
		return draw.Count(t.V4) + " IPv4, " + draw.Count(t.V6) + " IPv6"
	}
}
