package recover

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// network publishes the IPPool of a network's derived pool. The pool is the platform's, and all workspaces share it.
func (l *loss) network(name, cidr string) (*ipamv1alpha1.IPPool, ledger.PoolID) {
	l.t.Helper()
	id := ledger.DerivedID("net", "", ledger.Scope{"network": {Kind: "Network", Name: name}})
	pool := gen.Pool("net-"+name, gen.ChildOf("root", 24), gen.Reserves(1, 0, 28))
	pool.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "net"}
	pool.Spec.Scope = ipamv1alpha1.Scope{"network": {Kind: "Network", Name: name}}
	pool.Status.ScopeDigest = ledger.Digest(id)
	l.had(pool, cidr, "another", 7)
	return pool, id
}

// holds returns a range claim of the platform for a network. The claim shows the pool as its range.
func holds(name string, pool *ipamv1alpha1.IPPool, network string) *ipamv1alpha1.IPClaim {
	claim := gen.Claim(name, gen.OfClass("net"), gen.ForRange())
	claim.Spec.Scope = ipamv1alpha1.Scope{"network": {Kind: "Network", Name: network}}
	claim.Status = ipamv1alpha1.IPClaimStatus{ClassName: "net", AllocatedCIDR: pool.Status.AllocatedCIDR, PoolRef: &ipamv1alpha1.PoolRef{Name: pool.Name}}
	return claim
}

// A lost ledger gets back its derived pools, with their exclusions, from the IPPools, and the holders of these pools
// from the range claims.
func TestAdopter_RestoresRanges(t *testing.T) {
	l := newLoss(t)
	l.had(gen.Pool("root"), "10.0.0.0/16", "another", 9)
	pool, id := l.network("a", "10.0.3.0/24")
	claim := holds("range", pool, "a")
	inside := gen.Allocation("c", pool.Name, "10.0.3.16/28")
	l.record.claims, l.record.records = append(l.record.claims, claim), append(l.record.records, inside)
	l.comesBack(id, pool)
	p, ok := l.ledger.Pools().Get(id)
	if !ok || p.CIDR.String() != "10.0.3.0/24" || p.Parent != "uid-of-root" || p.Frozen || p.Derived.Class != "net" || p.Derived.ID() != id {
		t.Fatalf("the pool is %+v, %t; want it as it was", p, ok)
	}
	if want := []netip.Prefix{netip.MustParsePrefix("10.0.3.0/28")}; !slices.Equal(p.Excluded, want) {
		t.Errorf("it excludes %v, want %v", p.Excluded, want)
	}
	if held, ok := l.ledger.Derived().Held("uid-of-range"); !ok || held.ID != id {
		t.Errorf("the claim holds %s, %t; want the pool", held.ID, ok)
	}
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{inside: "10.0.3.16/28 bound"})
	l.wantUnknown(pool) // by its UID
}

// provisioned registers a root pool that has lost nothing, and carves the derived pool of network a from it. The
// returned function provisions that derived pool once more.
func (l *loss) provisioned() (made ledger.Pool, again func() error) {
	l.t.Helper()
	root := l.registers(l.had(gen.Pool("root"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 1), "10.0.0.0/16")
	l.ledger.Recovery().Trust(root)
	again = func() (err error) {
		derived := &ledger.Derived{Class: "net", Scope: ledger.Scope{"network": {Kind: "Network", Name: "a"}}}
		made, err = l.ledger.Derived().Provision(l.t.Context(), ledger.Request{Pool: root, Length: 24}, ledger.Pool{Cluster: "platform", Name: "net-a", Derived: derived}, nil)
		return err
	}
	must.Do(l.t, again())
	return made, again
}

// comesBack expects Whole to find a derived pool lost, and makes a pass.
func (l *loss) comesBack(id ledger.PoolID, pool *ipamv1alpha1.IPPool) {
	l.t.Helper()
	if whole, err := l.Whole(l.t.Context(), id, pool.Status); err != nil || whole {
		l.t.Fatalf("Whole = %t, %v; want that the pool is lost", whole, err)
	}
	must.Do(l.t, l.pass(l.t.Context()))
}

// When a derived pool was retired and made again, the status of its IPPool is that of the former pool for a moment. The
// new pool does not count as lost because of that.
func TestWhole_IgnoresTheStatusOfAFormerDerivedPool(t *testing.T) {
	l := newLoss(t)
	former, again := l.provisioned()
	shown := ipamv1alpha1.IPPoolStatus{AllocatedCIDR: former.CIDR.String(), Ledger: &ipamv1alpha1.PoolLedger{
		ID: l.ledger.Recovery().LedgerID(), Changes: catalog.Changes(former, 5),
	}}
	must.Do(t, l.ledger.Pools().Retire(t.Context(), former.ID))
	makeAgain := sync.OnceValue(again)
	l.lacks = func(ctx context.Context, id ledger.PoolID, changes int64) (bool, error) {
		behind, err := l.ledger.Recovery().Behind(ctx, id, changes)
		return behind, errors.Join(err, makeAgain())
	}
	if whole, err := l.Whole(t.Context(), former.ID, shown); !whole || err != nil {
		t.Errorf("Whole = %t, %v; want that the new pool has lost nothing", whole, err)
	}
	if now, there := l.ledger.Pools().Get(former.ID); now.Frozen || !there {
		t.Errorf("the pool is %+v, %t; want a new one that is not frozen", now, there)
	}
}

// The IPPool of a frozen derived pool may be deleted, for example with the APIBinding, and made again without a status.
// The pool gets back its published blocks, and is served again.
func TestAdopter_ServesAFrozenPoolWhoseIPPoolHasNoStatus(t *testing.T) {
	l := newLoss(t)
	p, _ := l.provisioned()
	must.Do(t, l.ledger.Recovery().Freeze(t.Context(), p.ID, time.Time{}))
	pool, _ := l.network("a", "")
	pool.Status = ipamv1alpha1.IPPoolStatus{}
	inside := gen.Allocation("c", pool.Name, p.CIDR.Addr().Next().String()+"/32")
	l.record.records = append(l.record.records, inside)
	l.comesBack(p.ID, pool)
	if now, _ := l.ledger.Pools().Get(p.ID); now.Frozen {
		t.Errorf("the pool is %+v; want it served again", now)
	}
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{inside: inside.Status.AllocatedCIDR + " bound"})
}

// A ledger is lost a moment after two networks were made, one inside the other, before their IPPools had a status. An
// IPAllocation with a block of the inner network tells where both lie, so that nobody else gets their addresses. The
// IPAllocation does not count for an IPPool whose label does not fit its class and scope.
func TestAdopter_LocatesPoolsThatHaveNoStatusYet(t *testing.T) {
	for name, tt := range map[string]struct {
		forge func(*ipamv1alpha1.IPPool)
		lost  bool
	}{
		"made by the system": {forge: func(*ipamv1alpha1.IPPool) {}},
		"of another scope": {lost: true, forge: func(pool *ipamv1alpha1.IPPool) {
			pool.Spec.Scope["network"] = ipamv1alpha1.ScopeRef{Kind: "Network", Name: "x"}
		}},
		"longer than the block": {lost: true, forge: func(pool *ipamv1alpha1.IPPool) { pool.Spec.PrefixLength = 32 }},
		"without a parent":      {lost: true, forge: func(pool *ipamv1alpha1.IPPool) { pool.Spec.ParentPoolRef = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			net, sub := gen.Class("net", gen.PoolPer("allProjects", "network"), gen.UniqueWithin("network")), gen.Class("sub", gen.Below("net"), gen.PoolPer("allProjects", "network"))
			l := newLoss(t, net, sub)
			root := l.had(gen.Pool("root"), "10.0.0.0/16", "another", 9)
			upper, upperID := l.network("a", "")
			lower := upper.DeepCopy()
			lower.Name, lower.UID, lower.Spec.ParentPoolRef.Name, lower.Spec.PrefixLength, lower.Spec.Reservations = "sub-a", "uid-of-sub-a", upper.Name, 26, nil
			lower.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "sub"}
			lowerID := ledger.DerivedID("sub", "", ledger.Scope{"network": {Kind: "Network", Name: "a"}})
			for pool, id := range map[*ipamv1alpha1.IPPool]ledger.PoolID{upper: upperID, lower: lowerID} {
				pool.Status = ipamv1alpha1.IPPoolStatus{}
				pool.Labels = map[string]string{ipamv1alpha1.LabelScopeDigest: ipamv1alpha1.LabelValue(ledger.Digest(id))}
			}
			tt.forge(lower)
			l.record.pools = append(l.record.pools, lower)
			inside := gen.Allocation("c", lower.Name, "10.0.3.80/28")
			l.record.records = append(l.record.records, inside)
			l.whole(root)
			must.Do(t, l.pass(t.Context()))
			if tt.lost {
				l.wantAll(map[ledger.ClaimID]string{})
				return
			}
			l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{inside: "10.0.3.80/28 bound"})
			in := ledger.AddressSpaceID("uid-of-root", "", ledger.Scope{"network": {Kind: "Network", Name: "a"}})
			for id, want := range map[ledger.PoolID][2]string{upperID: {"10.0.3.0/24", string(in)}, lowerID: {"10.0.3.64/26", string(upperID)}} {
				if p, ok := l.ledger.Pools().Get(id); !ok || p.Frozen || p.CIDR.String() != want[0] || string(p.Parent) != want[1] {
					t.Errorf("pool %s is %+v, %t; want it at %s in %s, served", id, p, ok, want[0], want[1])
				}
			}
		})
	}
}

// A ledger is lost when the IPPool of an inner network was made, and the IPPool of the network around it was not made
// yet. The claim inside is requeued, so that it makes both networks again. For a retained block no claim is requeued.
func TestAdopter_RequeuesTheClaimsOfAPoolWhoseParentIsMissing(t *testing.T) {
	l := newLoss(t)
	root := l.had(gen.Pool("root"), "10.0.0.0/16", "another", 9)
	pool, id := l.network("a", "")
	pool.Status = ipamv1alpha1.IPPoolStatus{}
	pool.Spec.ParentPoolRef.Name = "upper"
	pool.Labels = map[string]string{ipamv1alpha1.LabelScopeDigest: ipamv1alpha1.LabelValue(ledger.Digest(id))}
	former, _ := retained(pool.Name, "10.0.3.32/28")
	l.record.records = append(l.record.records, gen.Allocation("c", pool.Name, "10.0.3.16/28"), former)
	l.whole(root)
	if err := l.pass(t.Context()); err == nil || l.ledger.Recovery().Frozen("uid-of-root") {
		t.Errorf("pass = %v, and the root is frozen: %t; want it to be made again for the lower network alone", err, l.ledger.Recovery().Frozen("uid-of-root"))
	}
	if want := []ledger.ClaimID{"uid-of-c"}; !slices.Equal(l.doubted, want) {
		t.Errorf("doubted are %v, want %v", l.doubted, want)
	}
}

// The restored ledger has a pool at former addresses. A moment before the loss the pool was made again elsewhere, and
// its new IPPool has no status yet. The IPAllocation tells where the pool is.
func TestAdopter_LocatesAMovedPoolWithoutAStatusByItsIPAllocation(t *testing.T) {
	l := newLoss(t)
	p, _ := l.provisioned()
	must.Do(t, l.ledger.Recovery().Freeze(t.Context(), p.ID, time.Time{}))
	pool, id := l.network("a", "")
	pool.Status = ipamv1alpha1.IPPoolStatus{}
	pool.Labels = map[string]string{ipamv1alpha1.LabelScopeDigest: ipamv1alpha1.LabelValue(ledger.Digest(id))}
	inside := gen.Allocation("c", pool.Name, "10.0.9.16/28")
	l.record.records = append(l.record.records, inside)
	l.comesBack(p.ID, pool)
	if now, _ := l.ledger.Pools().Get(p.ID); now.Frozen || now.CIDR.String() != "10.0.9.0/24" {
		t.Errorf("the pool is %+v; want it served at 10.0.9.0/24", now)
	}
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{inside: "10.0.9.16/28 bound"})
}

// An IPPool that claims to be derived is not restored if its digest is not the one of its scope. Nor is it restored if
// it is in a tenant's workspace, and claims to be shared by all workspaces: shared pools are the platform's.
func TestAdopter_RestoresNoForgedPool(t *testing.T) {
	for name, forge := range map[string]func(*ipamv1alpha1.IPPool){
		"another digest": func(pool *ipamv1alpha1.IPPool) { pool.Status.ScopeDigest = "forged" },
		"a tenant's": func(pool *ipamv1alpha1.IPPool) {
			in("tenant", pool).Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:ipam"}
		},
	} {
		l := newLoss(t)
		root := l.had(gen.Pool("root"), "10.0.0.0/16", "another", 9)
		pool, id := l.network("a", "10.0.3.0/24")
		forge(pool)
		l.whole(root)
		must.Do(t, l.pass(t.Context()))
		for _, id := range []ledger.PoolID{id, ledger.PoolID(pool.UID)} {
			if p, ok := l.ledger.Pools().Get(id); ok {
				t.Errorf("%s: the ledger has %s as %s of workspace %s, want no such pool", name, id, p.CIDR, p.Cluster)
			}
		}
	}
}

// A claim may have a forged status, stored past webhooks and policies. The claim gets no range of another class, scope
// or workspace, however old it is, and keeps no pool frozen.
func TestAdopter_GivesAForgedClaimNoRange(t *testing.T) {
	l := newLoss(t)
	root := l.had(gen.Pool("root"), "10.0.0.0/16", "another", 9)
	shared, id := l.network("a", "10.0.3.0/24")
	own := ledger.DerivedID("net", "platform", ledger.Scope{"network": {Kind: "Network", Name: "b"}})
	project, _ := l.network("b", "10.0.4.0/24")
	project.Status.ScopeDigest = ledger.Digest(own)
	l.record.unbound = "deleted"
	honest := []*ipamv1alpha1.IPClaim{holds("of-a", shared, "a"), holds("of-b", project, "b")}
	for name, forge := range map[string]func(*ipamv1alpha1.IPClaim){
		"of-another-scope": func(c *ipamv1alpha1.IPClaim) {
			c.Spec.Scope["network"] = ipamv1alpha1.ScopeRef{Kind: "Network", Name: "x"}
		},
		"without-scope":    func(c *ipamv1alpha1.IPClaim) { c.Spec.Scope = nil },
		"of-another-class": func(c *ipamv1alpha1.IPClaim) { c.Status.ClassName = "other" },
		"of-a-part":        func(c *ipamv1alpha1.IPClaim) { c.Status.AllocatedCIDR = "10.0.3.0/25" },
		"bound-nowhere":    func(c *ipamv1alpha1.IPClaim) { c.Annotations["kcp.io/cluster"] = "deleted" },
		"of-another-tenant": func(c *ipamv1alpha1.IPClaim) {
			c.Status = *holds("", project, "b").Status.DeepCopy()
			c.Spec.Scope = project.Spec.Scope
		},
		"of-an-authored-pool": func(c *ipamv1alpha1.IPClaim) { c.Status = *holds("", root, "a").Status.DeepCopy() },
		"in-no-workspace": func(c *ipamv1alpha1.IPClaim) {
			c.Status.PoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:nowhere"}
		},
	} {
		forged := in("tenant", holds(name, shared, "a"))
		forged.CreationTimestamp.Time = honest[0].CreationTimestamp.Add(-time.Hour)
		forge(forged)
		if forged.Status.PoolRef.ProjectRef == nil {
			forged.Status.PoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:ipam"}
		}
		l.record.claims = append(l.record.claims, forged)
	}
	l.record.claims = append(l.record.claims, honest...)
	l.whole(root)
	l.binds("tenant", "root:tenant")
	if err := l.pass(t.Context()); !errors.Is(err, errUnnamed) {
		t.Errorf("pass = %v; want it to wait for the workspace that is bound nowhere", err)
	}
	l.now.SetTime(l.now.Now().Add(live.Absence))
	must.Do(t, l.pass(t.Context()))
	for id, want := range map[ledger.PoolID]ledger.ClaimID{id: "uid-of-of-a", own: "uid-of-of-b"} {
		if p, ok := l.ledger.Pools().Get(id); !ok || p.Derived.Holder.Claim != want {
			t.Errorf("pool %s is held by %s, %t; want %s", p.Name, p.Derived.Holder.Claim, ok, want)
		}
	}
}

// Blocks that are unique within a network are adopted into the address space of their network, so that two blocks of
// the same prefix do not conflict.
func TestAdopter_RestoresAddressSpaces(t *testing.T) {
	l := newLoss(t, gen.Class("flat", gen.UniqueWithin("network")))
	root := l.had(gen.Pool("root"), "10.0.0.0/16", "another", 9)
	for _, name := range []string{"a", "b"} {
		record := gen.Allocation("in-"+name, "root", "10.0.0.16/28")
		record.Spec.Scope = ipamv1alpha1.Scope{"network": {Kind: "Network", Name: name}}
		l.record.records = append(l.record.records, record)
	}
	// The third claim has no IPAllocation, and its scope has more roles than its block is unique within.
	alone := gen.Claim("alone", gen.OfClass("flat"))
	alone.Spec.Scope = ipamv1alpha1.Scope{"network": {Kind: "Network", Name: "a"}, "location": {Kind: "Location", Name: "ams"}}
	alone.Status = ipamv1alpha1.IPClaimStatus{AllocatedCIDR: "10.0.0.32/28", ClassName: "flat", PoolRef: &ipamv1alpha1.PoolRef{Name: "root"}}
	l.record.claims = append(l.record.claims, alone)
	l.whole(root)
	must.Do(t, l.pass(t.Context()))
	for claim, network := range map[ledger.ClaimID]string{"uid-of-in-a": "a", "uid-of-in-b": "b", "uid-of-alone": "a"} {
		want := ledger.AddressSpaceID("uid-of-root", "platform", ledger.Scope{"network": {Kind: "Network", Name: network}})
		b, ok, err := l.ledger.Lookup(t.Context(), claim)
		if !ok || err != nil || b.Pool != want || b.State != ledger.Bound {
			t.Errorf("claim %s has %+v, %t, %v; want it bound in %s", claim, b, ok, err, want)
		}
	}
}

// The class of a claim without IPAllocation is deleted. The claim's block is adopted nevertheless, so that nobody else
// gets it. If the pool has address spaces, the block goes into the address space of its network. Otherwise it goes into
// the pool itself.
func TestAdopter_RecoversABlockWhoseClassIsGone(t *testing.T) {
	for name, spaced := range map[string]bool{"with address spaces": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t)
			root := l.had(gen.Pool("root"), "10.0.0.0/16", "another", 9)
			scope := ipamv1alpha1.Scope{"network": {Kind: "Network", Name: "a"}}
			want := ledger.PoolID("uid-of-root")
			if spaced {
				record := gen.Allocation("in-a", "root", "10.0.0.16/28")
				record.Spec.Scope = scope
				l.record.records = append(l.record.records, record)
				want = ledger.AddressSpaceID(want, "platform", ledger.Scope{"network": {Kind: "Network", Name: "a"}})
			}
			alone := gen.Claim("alone", gen.OfClass("gone"))
			alone.Spec.Scope = ipamv1alpha1.Scope{"network": scope["network"], "location": {Kind: "Location", Name: "ams"}}
			alone.Status = ipamv1alpha1.IPClaimStatus{AllocatedCIDR: "10.0.0.32/28", ClassName: "gone", PoolRef: &ipamv1alpha1.PoolRef{Name: "root"}}
			l.Clusters = testbed.Clusters{"": testbed.NewWorkspace(t)}
			l.record.claims = append(l.record.claims, alone)
			l.whole(root)
			must.Do(t, l.pass(t.Context()))
			if b, ok, err := l.ledger.Lookup(t.Context(), "uid-of-alone"); !ok || err != nil || b.Pool != want || b.State != ledger.Bound {
				t.Errorf("the claim has %+v, %t, %v; want its block bound in %s", b, ok, err, want)
			}
		})
	}
}

// After the copy of the ledger was taken, a derived pool was released and made again. The pool comes back where its
// IPPool shows it. If the restored ledger has the pool there, but closed or draining, the pool is opened. It gets the
// claim that holds it now, and the blocks inside.
func TestAdopter_RestoresARangeThatWasMadeAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		cidr   string
		closed bool
		heldBy ledger.ClaimID
		drains bool // with a block inside
	}{
		"at the same place":                     {cidr: "10.0.0.0/24"},
		"elsewhere":                             {cidr: "10.0.3.0/24"},
		"closed and idle":                       {cidr: "10.0.0.0/24", closed: true},
		"closed, held by a claim that is there": {cidr: "10.0.0.0/24", closed: true, heldBy: "uid-of-range"},
		"held by a claim that is gone":          {cidr: "10.0.0.0/24", heldBy: "uid-of-former"},
		"draining, with a block inside":         {cidr: "10.0.0.0/24", drains: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t)
			former, _ := l.provisioned()
			if tt.heldBy != "" {
				holder := ledger.Holder{Claim: tt.heldBy, Cluster: "platform", Namespace: "default", Name: "range"}
				must.Get(l.ledger.Derived().Hold(t.Context(), former.ID, holder))(t)
			}
			if tt.closed {
				must.Get(l.ledger.Derived().Begin(t.Context(), former.ID, tt.heldBy, time.Now()))(t)
			}
			if tt.drains {
				l.drains(former.ID)
			}
			l.restart()
			pool, id := l.network("a", tt.cidr)
			later := former
			later.RegisteredAt = former.RegisteredAt.Add(time.Minute)
			pool.Status.Ledger = &ipamv1alpha1.PoolLedger{ID: l.ledger.Recovery().LedgerID(), Changes: catalog.Changes(later, 1)}
			inside := gen.Allocation("c", pool.Name, strings.Replace(tt.cidr, "0/24", "16/28", 1))
			l.record.records, l.record.claims = append(l.record.records, inside), append(l.record.claims, holds("range", pool, "a"))
			l.comesBack(former.ID, pool)
			now, _ := l.ledger.Pools().Get(id)
			if now.CIDR.String() != tt.cidr || now.Closed() || now.State != ledger.PoolOpen || now.Frozen || now.Derived.Holder.Claim != "uid-of-range" {
				t.Errorf("the pool is %+v of %+v; want it at %s, open, and held by its claim", now, now.Derived, tt.cidr)
			}
			l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{inside: inside.Status.AllocatedCIDR + " bound"})
		})
	}
}

// A recovered pool that all workspaces share counts for the workspace whose claim made the pool. The IPPool's label
// names that workspace.
func TestAdopter_CountsASharedRangeForItsMaker(t *testing.T) {
	l := newLoss(t)
	l.had(gen.Pool("root"), "10.0.0.0/16", "another", 9)
	pool, id := l.network("a", "10.0.3.0/24")
	pool.Labels = map[string]string{ipamv1alpha1.LabelProvisionedFor: "maker"}
	l.comesBack(id, pool)
	if n := l.ledger.Pools().Count("maker"); n != 1 {
		t.Errorf("%d pools count for the workspace, want 1", n)
	}
}

// The restored ledger has the range of a claim. So the pass neither asks whether the class admits the claim's
// workspace, nor waits for the workspace's path. The range is served at once.
func TestAdopter_ServesARangeOfTheLedgerAtOnce(t *testing.T) {
	l := newLoss(t, gen.Class("net", gen.PoolPer("network"), gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:w"}))
	p, _ := l.provisioned()
	must.Get(l.ledger.Derived().Hold(t.Context(), p.ID, ledger.Holder{Claim: "uid-of-range", Cluster: "w", Namespace: "default", Name: "range"}))(t)
	must.Do(t, l.ledger.Recovery().Freeze(t.Context(), p.ID, time.Time{}))
	pool, _ := l.network("a", p.CIDR.String())
	claim := in("w", holds("range", pool, "a"))
	claim.Status.PoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:ipam"}
	l.record.claims = append(l.record.claims, claim)
	l.comesBack(p.ID, pool)
	if now, _ := l.ledger.Pools().Get(p.ID); now.Frozen || now.Derived.Holder.Claim != "uid-of-range" {
		t.Errorf("the pool is %+v; want it served, and held by the claim", now)
	}
}
