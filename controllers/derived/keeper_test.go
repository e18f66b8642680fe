package derived

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// The IPPool of a pool that all workspaces share names the workspace whose claim made the pool. From that name a
// recovered ledger learns for which workspace the pool counts.
func TestPublish_NamesTheMakerOfASharedPool(t *testing.T) {
	s := newScene(t)
	p := must.Get(s.alloc.Derived().Provision(t.Context(), ledger.Request{Pool: "root", Length: 24}, ledger.Pool{
		Cluster: "platform", Name: "net-a", Derived: &ledger.Derived{Class: "net", By: "maker", Scope: ledger.Scope{"network": {Kind: "Network", Name: "a"}}},
	}, nil))(t)
	must.Do(t, s.Publish(t.Context(), p))
	object := &ipamv1alpha1.IPPool{}
	must.Do(t, s.clusters[""].GetClient().Get(t.Context(), client.ObjectKey{Name: p.Name}, object))
	if got := object.Labels[ipamv1alpha1.LabelProvisionedFor]; got != "maker" {
		t.Errorf("the IPPool is provisioned for %q, want maker", got)
	}
}

// The IPPool of a pool names its class, its scope and its parent. The pool's ID follows from these. A second Publish
// changes nothing.
func TestPublish_MakesAnIPPoolThatLeadsToThePool(t *testing.T) {
	s := newScene(t)
	p := s.network("net", "a", "root", 24)
	object := s.object(p)
	want := ipamv1alpha1.IPPoolSpec{
		ClassRef: &ipamv1alpha1.ClassRef{Name: "net"}, PrefixLength: 24, Visibility: ipamv1alpha1.VisibilityConsumer,
		ParentPoolRef: &ipamv1alpha1.PoolRef{Name: "root", ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:ipam"}},
		Scope:         ipamv1alpha1.Scope{"network": {APIGroup: "net.example", Kind: "Network", Name: "a"}},
	}
	if diff := cmp.Diff(want, object.Spec); diff != "" || len(object.Finalizers) > 0 || len(object.OwnerReferences) > 0 {
		t.Errorf("the IPPool differs (-want +got):\n%s\nfinalizers %v, owners %v", diff, object.Finalizers, object.OwnerReferences)
	}
	if id, ok := catalog.IDOf(s.alloc.Pools(), object, tenant); !ok || id != p.ID {
		t.Errorf("IDOf = %s, %t; want %s", id, ok, p.ID)
	}
	below := s.network("sub", "a", p.ID, 28)
	if parent := s.object(below).Spec.ParentPoolRef; parent.Name != p.Name || parent.ProjectRef != nil {
		t.Errorf("the parent of the pool below is %+v, want %s of the same workspace", parent, p.Name)
	}
	for _, published := range []ledger.Pool{p, below} {
		if err := s.Publish(t.Context(), published); err != nil {
			t.Errorf("Publish of %s again = %v", published.Name, err)
		}
	}
}

// The IPPool of a pool has the prefixes that the pool never hands out, also if its class reserves others meanwhile, or
// is gone. So a ledger that was lost and restored gives no gateway to a claim.
func TestPublish_ShowsTheWithheldPrefixes(t *testing.T) {
	for name, change := range map[string]func(*scene, *ipamv1alpha1.IPClass){
		"as the class says": func(*scene, *ipamv1alpha1.IPClass) {},
		"the class has changed": func(s *scene, class *ipamv1alpha1.IPClass) {
			class.Spec.Reservations.Leading = 2
			must.Do(s, s.clusters[""].GetClient().Update(s.Context(), class))
		},
		"the class is gone": func(s *scene, class *ipamv1alpha1.IPClass) {
			must.Do(s, s.clusters[""].GetClient().Delete(s.Context(), class))
		},
	} {
		s := newScene(t)
		class := gen.Class("kept", gen.Reserves(1, 1, 28))
		testbed.Create(t, s.clusters[""].GetClient(), class)
		first := ipamv1alpha1.IPPoolSpec{Reservations: class.Spec.Reservations.DeepCopy()}
		p := must.Get(s.alloc.Derived().Provision(t.Context(), ledger.Request{Pool: "root", Length: 24}, ledger.Pool{
			Cluster: tenant, Name: "kept-a", Derived: &ledger.Derived{Class: "kept", Workspace: tenant},
		}, func(cidr netip.Prefix) []netip.Prefix { return must.Get(resolve.Excluded(cidr, first))(t) }))(t)
		change(s, class)
		must.Do(t, s.Publish(t.Context(), p))
		if got, err := resolve.Excluded(p.CIDR, s.object(p).Spec); err != nil || !slices.Equal(got, p.Excluded) || len(got) != 2 {
			t.Errorf("%s: the IPPool withholds %v, %v; want %v, as the pool does", name, got, err, p.Excluded)
		}
	}
}

// An IPPool that a user has made under the name of a pool is not taken for the pool's IPPool, whatever its spec and
// labels say. Publish fails, and unpublish does not delete it.
func TestPublish_RefusesAForgedIPPool(t *testing.T) {
	for name, forge := range map[string]func(*ipamv1alpha1.IPPool){
		"plain":         func(*ipamv1alpha1.IPPool) {},
		"another scope": func(p *ipamv1alpha1.IPPool) { p.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "net"} },
		"labels": func(p *ipamv1alpha1.IPPool) {
			p.Labels = map[string]string{ipamv1alpha1.LabelProvisionedBy: "net", ipamv1alpha1.LabelScopeDigest: "1"}
		},
	} {
		forged := gen.Pool("net-a")
		forge(forged)
		s := newScene(t, forged)
		p := ledger.Pool{Cluster: tenant, Name: "net-a", Derived: &ledger.Derived{Class: "net", Workspace: tenant, Scope: ledger.Scope{"network": {Kind: "Network", Name: "a"}}}}
		p = must.Get(s.alloc.Derived().Provision(t.Context(), ledger.Request{Pool: "root", Length: 24}, p, nil))(t)
		if err := s.Publish(t.Context(), p); err == nil {
			t.Errorf("%s: Publish = nil, want an error", name)
		}
		if id, ok := catalog.IDOf(s.alloc.Pools(), forged, tenant); ok && id != ledger.PoolID(forged.UID) {
			t.Errorf("%s: IDOf = %s", name, id)
		}
		if err := s.unpublish(t.Context(), p); err != nil || s.object(p) == nil {
			t.Errorf("%s: unpublish = %v, the object is %v; want it as it was", name, err, s.object(p))
		}
	}
}

// The cache may still show the IPPool of a former pool of the same name, which was retired a moment ago. So the IPPool
// of a young pool is created whatever the cache shows.
func TestPublish_IgnoresTheCacheForAYoungPool(t *testing.T) {
	s := newScene(t)
	p := s.network("net", "a", "root", 24)
	before := s.object(p)
	if err := s.Retire(t.Context(), p, ""); err != nil || s.object(p) != nil || s.known(p) {
		t.Fatalf("Retire = %v, the object is %v, known: %t; want neither", err, s.object(p), s.known(p))
	}
	again := s.network("net", "a", "root", 24)
	if after := s.object(again); after == nil || again.ID != p.ID || before == nil {
		t.Errorf("the pool made again is %+v with the object %v; want the same ID, and an object", again, after)
	}
}

// If the deletion of an IPPool was seen, or its workspace was unbound, the next Publish creates the IPPool again.
func TestPublish_CreatesADeletedIPPoolAgain(t *testing.T) {
	for name, news := range map[string]func(*scene, *ipamv1alpha1.IPPool){
		"deleted": func(s *scene, object *ipamv1alpha1.IPPool) { s.Seen(tenant, object, nil) },
		"unbound": func(s *scene, _ *ipamv1alpha1.IPPool) { s.Left(tenant) },
	} {
		s := newScene(t)
		p := s.network("net", "a", "root", 24)
		object := s.object(p)
		s.deletes(object)
		news(s, object)
		if err := s.Publish(t.Context(), p); err != nil || s.object(p) == nil {
			t.Errorf("%s: Publish = %v, the object is %v; want it again", name, err, s.object(p))
		}
	}
}

// A caller that has found a pool before it was closed, or retired, cannot publish it any more.
func TestPublish_RefusesAClosedPool(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	s.mustClose(claim)
	err := s.Publish(t.Context(), p)
	if _, closed := errors.AsType[*ledger.ReleasingError](err); !closed || s.object(p) != nil {
		t.Errorf("Publish of a closed pool = %v, the object is %v; want a ReleasingError, and none", err, s.object(p))
	}
	s.deletes(claim)
	must.Get(s.Complete(t.Context(), p.ID))(t)
	if err := s.Publish(t.Context(), p); !errors.Is(err, ledger.ErrUnknownPool) || s.object(p) != nil {
		t.Errorf("Publish of a retired pool = %v, the object is %v; want ErrUnknownPool, and none", err, s.object(p))
	}
}

// laggard is a workspace whose cache still shows an IPPool after its deletion.
type laggard struct {
	*testbed.Workspace
	cache client.Client
}

func (l laggard) GetCache() cache.Cache { return testbed.Cache{Reader: l.cache} }

// A DELETE of a range has deleted the IPPool, and then failed, so that the pool is opened again. The next Publish
// creates the IPPool, although the cache still shows the former one.
func TestPublish_IgnoresACacheThatLags(t *testing.T) {
	for name, open := range map[string]func(*scene, ledger.Pool){
		"for a CREATE": func(s *scene, p ledger.Pool) { s.wantComplete(p) },
		"by a look": func(s *scene, p ledger.Pool) {
			s.clock.Step(promise.Grace + time.Second)
			s.look(p)
		},
	} {
		s := newScene(t)
		claim := gen.Claim("range", gen.OfClass("net"))
		testbed.Create(t, s.workspace, claim)
		p := must.Get(s.alloc.Derived().Provision(t.Context(), ledger.Request{Pool: "root", Length: 24}, ledger.Pool{
			Cluster: tenant, Name: "net-all", Derived: &ledger.Derived{Class: "net", Scope: ledger.Scope{}, Holder: holderOf(claim)},
		}, nil))(t)
		must.Do(t, s.Publish(t.Context(), p))
		s.clusters["w"] = laggard{&testbed.Workspace{Client: s.workspace}, testbed.NewWorkspace(t, s.object(p)).Client}
		s.clock.Step(time.Minute)
		s.mustClose(claim)
		now, _ := s.alloc.Pools().Get(p.ID)
		open(s, now)
		if err := s.Publish(t.Context(), now); err != nil || s.object(p) == nil {
			t.Errorf("%s: Publish = %v, and the object is %v; want it made again", name, err, s.object(p))
		}
	}
}

// Two CREATEs at once have made two pools of one name. The pool that is published second is retired, held or not, so
// that its CREATE makes it again under another name.
func TestPublish_RetiresTheSecondPoolOfAName(t *testing.T) {
	for name, held := range map[string]ledger.Holder{"idle": {}, "held": {Claim: promise.NewID(tenant, "default", "r"), Cluster: tenant, Namespace: "default", Name: "r"}} {
		s := newScene(t)
		made := func(network string, by ledger.Holder) ledger.Pool {
			return must.Get(s.alloc.Derived().Provision(t.Context(), ledger.Request{Pool: "root", Length: 24}, ledger.Pool{
				Cluster: tenant, Name: "net-x", Derived: &ledger.Derived{Class: "net", Scope: ledger.Scope{"network": {Kind: "Network", Name: network}}, Holder: by},
			}, nil))(t)
		}
		first, second := made("a", ledger.Holder{}), made("b", held)
		must.Do(t, s.Publish(t.Context(), first))
		must.Be(t, s.Publish(t.Context(), second), ledger.ErrUnknownPool)
		if s.known(second) || !s.known(first) || s.object(first) == nil {
			t.Errorf("%s: the ledger has the first pool: %t, and the second: %t; want the first alone, with its IPPool", name, s.known(first), s.known(second))
		}
	}
}
