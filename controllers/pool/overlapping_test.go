package pool

import (
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// Two networks have the same CIDR in one root pool. The root pool shows the figures of the fuller network. Idle
// networks do not count as its use. The status of a network shows the roles within which its addresses are unique. A
// ledger that was lost is restored by these roles.
func TestDerived_ShowsTheFullerOfTwoOverlappingNetworks(t *testing.T) {
	s := newDerivedScene(t, made("a"), made("b"))
	for _, name := range []string{"a", "b"} {
		space := ledger.Derived{Of: "uid-of-root", Workspace: "w", Scope: network(name)}
		p := ledger.Pool{Cluster: "w", Name: "net-" + name, Derived: &ledger.Derived{Class: "net", Workspace: "w", Scope: network(name)}}
		p = must.Get(s.alloc.Derived().Provision(t.Context(), ledger.Request{Pool: space.ID(), Begins: &space, Length: 24}, p, nil))(t)
		if pool := s.pool(t, "net-"+name); pool.Status.AllocatedCIDR != "10.0.0.0/24" || !slices.Equal(pool.Status.UniqueWithin, []string{"network"}) {
			t.Errorf("network %s shows %s, unique within %v; want 10.0.0.0/24 within the network", name, pool.Status.AllocatedCIDR, pool.Status.UniqueWithin)
		}
		if name == "b" {
			must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: p.ID, Length: 32, Holder: ledger.Holder{Claim: "c", Cluster: "w", Namespace: "default", Name: "c"}}))(t)
			must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: space.ID(), Begins: &space, Length: 24, Holder: ledger.Holder{Claim: "d", Cluster: "w", Namespace: "default", Name: "d"}}))(t)
		}
	}
	root := s.pool(t, "root")
	if used, said := inUse(root); root.Status.Spaces != 2 || root.Status.Capacity.Allocated != "512" || !used || said != "the pool holds 2 blocks, of claim default/d, pool net-b" {
		t.Errorf("the root pool has %d spaces, %s addresses allocated, InUse %t %q; want 2, 512 as in the fuller one, and who uses it",
			root.Status.Spaces, root.Status.Capacity.Allocated, used, said)
	}
	must.Do(t, s.alloc.Release(t.Context(), "c"))
	must.Do(t, s.alloc.Release(t.Context(), "d"))
	if used, said := inUse(s.pool(t, "root")); used {
		t.Errorf("the root pool is in use by networks that nobody uses: %s", said)
	}
}
