package recover

import (
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// Two networks with the same CIDR come back, each in its own address space, with their holders and with blocks of the
// same prefix inside. The roles of the address spaces come from the IPPools, because the class may be deleted.
func TestAdopter_RestoresOverlappingNetworks(t *testing.T) {
	l := newLoss(t)
	root := l.had(gen.Pool("root"), "10.0.0.0/16", "another", 9)
	networks := map[string]ledger.PoolID{}
	blocks := map[*ipamv1alpha1.IPAllocation]string{}
	for _, name := range []string{"red", "blue"} {
		pool, id := l.network(name, "10.0.3.0/24")
		pool.Status.UniqueWithin = []string{"network"}
		networks[name] = id
		inside := gen.Allocation("in-"+name, pool.Name, "10.0.3.16/28")
		blocks[inside] = "10.0.3.16/28 bound"
		l.record.records = append(l.record.records, inside)
		l.record.claims = append(l.record.claims, holds("range-"+name, pool, name))
	}
	l.whole(root)
	must.Do(t, l.pass(t.Context()))
	for name, id := range networks {
		space := ledger.AddressSpaceID("uid-of-root", "", ledger.Scope{"network": {Kind: "Network", Name: name}})
		p, ok := l.ledger.Pools().Get(id)
		if !ok || p.CIDR.String() != "10.0.3.0/24" || p.Parent != space || p.Frozen || p.Derived.Holder.Claim != ledger.ClaimID("uid-of-range-"+name) {
			t.Errorf("network %s is %+v of %+v, %t; want it in address space %s, held by its claim", name, p, p.Derived, ok, space)
		}
		if roles := catalog.UniqueWithin(l.ledger.Pools(), p); len(roles) != 1 || roles[0] != "network" {
			t.Errorf("network %s is unique within %v, want the network", name, roles)
		}
	}
	l.wantBlocks(blocks)
}

// In the restored ledger the network lies in another root pool of the same CIDR. It comes back in the root pool that
// its IPPool names.
func TestAdopter_MovesANetworkToTheRootPoolThatItsIPPoolNames(t *testing.T) {
	l := newLoss(t)
	ledgerID := l.ledger.Recovery().LedgerID()
	root := l.registers(l.had(gen.Pool("root", gen.Visible(ipamv1alpha1.VisibilityPlatform)), "10.0.0.0/16", ledgerID, 1), "10.0.0.0/16")
	l.ledger.Recovery().Trust(root)
	derived := &ledger.Derived{Class: "net", Workspace: "tenant", Scope: ledger.Scope{"network": {Kind: "Network", Name: "a"}}}
	former := must.Get(l.ledger.Derived().Provision(t.Context(), ledger.Request{Pool: root, Length: 24}, ledger.Pool{Cluster: "tenant", Name: "net-a", Derived: derived}, nil))(t)
	l.restart()
	l.binds("tenant", "root:tenant")
	own := in("tenant", l.had(gen.Pool("own"), "10.0.0.0/16", ledgerID, 9))
	pool, _ := l.network("a", former.CIDR.String())
	in("tenant", pool).Spec.ParentPoolRef = &ipamv1alpha1.PoolRef{Name: "own"}
	later := former
	later.RegisteredAt = former.RegisteredAt.Add(time.Second)
	pool.Status.ScopeDigest = ledger.Digest(former.ID)
	pool.Status.Ledger = &ipamv1alpha1.PoolLedger{ID: ledgerID, Changes: catalog.Changes(later, 1)}
	l.whole(own)
	l.comesBack(former.ID, pool)
	if p, ok := l.ledger.Pools().Get(former.ID); !ok || p.Parent != "uid-of-own" || p.CIDR != former.CIDR {
		t.Errorf("the pool is %+v, %t; want it in the pool that its IPPool names", p, ok)
	}
}
