package pool

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// network returns the scope of a network.
func network(name string) ledger.Scope { return ledger.Scope{"network": {Kind: "Network", Name: name}} }

// derivedScene is the pool controller of a workspace w, over a real ledger in which w has a root pool.
type derivedScene struct {
	*Reconciler
	alloc     *allocator.Allocator
	workspace client.Client
}

// goes is the time at which the idle pools of a scene are retired.
var goes = time.Date(2026, 11, 29, 12, 40, 6, 1, time.UTC)

func newDerivedScene(t *testing.T, objects ...client.Object) *derivedScene {
	t.Helper()
	root := gen.Pool("root")
	s := &derivedScene{alloc: testbed.Ledger(t, etcdtest.New(t).Client(), allocator.Options{}, ledger.Pool{
		ID: ledger.PoolID(root.UID), Cluster: "w", Name: "root", CIDR: testbed.Pool("w", "root", "10.0.0.0/16").CIDR,
	})}
	workspace := testbed.NewWorkspace(t, append(objects, root)...)
	workspace.Client = testbed.NewClient(t).WithObjects(append(objects, root)...).WithStatusSubresource(&ipamv1alpha1.IPPool{}).Build()
	s.workspace = workspace.Client
	known := directory.New(directory.Workspace{Cluster: "platform", Path: "root:ipam"})
	clusters := testbed.Clusters{"w": workspace}
	queue := inbox.NewQueue("")
	t.Cleanup(queue.ShutDown)
	s.Reconciler = &Reconciler{
		Options: Options{
			Ledger:    views.Of(s.alloc),
			Directory: known,
			Adoption:  adopted{},
			Queue:     queue,
			Seen:      func(ledger.ClusterName, *ipamv1alpha1.IPPool, *ipamv1alpha1.IPPool) {},
			Goes:      func(ledger.Pool) (time.Time, bool) { return goes, !goes.IsZero() },
			Oracle:    &oracle{answer: live.Answer{Verdict: live.Alive, Object: root}},
			Catalog:   &catalog.Catalog{Clusters: clusters, Directory: known, Rooms: s.alloc.Pools()},
			RetireBelow: func(ctx context.Context, id ledger.PoolID) error {
				for _, p := range s.alloc.Derived().Below(id) {
					if err := s.alloc.Pools().Retire(ctx, p.ID); err != nil {
						return err
					}
				}
				return nil
			},
		},
		clusters: clusters,
		now:      time.Now,
	}
	return s
}

// pool returns an IPPool after the controller has reconciled it.
func (s *derivedScene) pool(t *testing.T, name string) *ipamv1alpha1.IPPool {
	t.Helper()
	for range 2 { // the first gives a pool its finalizer
		if _, err := s.Reconcile(t.Context(), inbox.Request("w", client.ObjectKey{Name: name})); err != nil {
			t.Fatalf("Reconcile of %s: %v", name, err)
		}
	}
	pool := &ipamv1alpha1.IPPool{}
	must.Do(t, s.workspace.Get(t.Context(), client.ObjectKey{Name: name}, pool))
	return pool
}

// provisions makes the pool of a class for the network a of the workspace.
func (s *derivedScene) provisions(t *testing.T, class string, above ledger.PoolID, length int, by ledger.Holder) ledger.Pool {
	t.Helper()
	p := ledger.Pool{Cluster: "w", Name: class + "-a", Derived: &ledger.Derived{Class: class, Workspace: "w", Scope: network("a"), Holder: by}}
	return must.Get(s.alloc.Derived().Provision(t.Context(), ledger.Request{Pool: above, Length: length}, p, nil))(t)
}

// made returns the IPPool of a derived pool of the class net, for the network with this name.
func made(name string) *ipamv1alpha1.IPPool {
	pool := gen.Pool("net-"+name, gen.ChildOf("root", 24))
	pool.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "net"}
	pool.Spec.Scope = ipamv1alpha1.Scope{"network": {Kind: "Network", Name: name}}
	return pool
}

func inUse(pool *ipamv1alpha1.IPPool) (bool, string) {
	condition := meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionInUse)
	if condition == nil {
		return false, ""
	}
	return condition.Status == "True", condition.Message
}

// The status of a derived pool follows the ledger, and nothing else of its IPPool is written.
func TestDerived_FollowsTheLedger(t *testing.T) {
	s := newDerivedScene(t, made("a"))
	p := s.provisions(t, "net", "uid-of-root", 24, ledger.Holder{Claim: "uid-of-r", Cluster: "w", Namespace: "default", Name: "r"})
	pool := s.pool(t, "net-a")
	if pool.Status.AllocatedCIDR != p.CIDR.String() || pool.Status.ScopeDigest != ledger.Digest(p.ID) || pool.Status.Capacity.Total != "256" || len(pool.Finalizers) > 0 {
		t.Errorf("status = %+v, finalizers %v; want that of %s, and none", pool.Status, pool.Finalizers, p.CIDR)
	}
	if used, said := inUse(pool); !used || said != "claim default/r holds the pool" {
		t.Errorf("InUse = %t, %q; want that the claim holds it", used, said)
	}
	must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: p.ID, Length: 32, Holder: ledger.Holder{Claim: "c", Cluster: "w", Namespace: "default", Name: "c"}}))(t)
	if used, said := inUse(s.pool(t, "net-a")); !used || said != "claim default/r holds the pool, and the pool holds 1 block, of claim default/c" {
		t.Errorf("InUse = %t, %q", used, said)
	}
}

// If the class that has made a pool is deleted, the pool is requeued, and its status says that the class is gone. Once
// there is a class of that name again, the status no longer says so.
func TestDerived_SaysThatItsClassIsGone(t *testing.T) {
	s, class := newDerivedScene(t, made("a")), gen.Class("net", gen.PoolPer("network", "project"))
	platform := testbed.NewWorkspace(t)
	s.Catalog.Clusters.(testbed.Clusters)[""] = platform
	s.provisions(t, "net", "uid-of-root", 24, ledger.Holder{})
	says := func(want bool) {
		t.Helper()
		allocated := meta.FindStatusCondition(s.pool(t, "net-a").Status.Conditions, ipamv1alpha1.ConditionAllocated)
		if said := strings.Contains(allocated.Message, `class "net" is gone`); said != want || allocated.Status != "True" {
			t.Errorf("Allocated is %s: %s; want it True, and that the class is gone: %t", allocated.Status, allocated.Message, want)
		}
	}
	says(true)
	must.Do(t, platform.Client.Create(t.Context(), class))
	says(false)
	s.onClass("", platform).Delete(t.Context(), event.DeleteEvent{Object: class}, s.Queue)
	if n := s.Queue.Len(); n != 1 {
		t.Errorf("%d pools are requeued when the class goes, want the one that it has made", n)
	}
	must.Do(t, platform.Client.Delete(t.Context(), class))
	says(true)
}

// An IPPool may say by its spec that the system has made it, although the ledger has no such pool. It gets no CIDR, and
// does not enter the ledger.
func TestDerived_RefusesAForgedPool(t *testing.T) {
	other := made("a")
	other.Name = "other"
	s := newDerivedScene(t, made("b"), other)
	s.provisions(t, "net", "uid-of-root", 24, ledger.Holder{})
	for _, name := range []string{"net-b", "other"} {
		pool := s.pool(t, name)
		if pool.Status.AllocatedCIDR != "" || len(pool.Finalizers) > 0 || meta.IsStatusConditionTrue(pool.Status.Conditions, ipamv1alpha1.ConditionReady) {
			t.Errorf("%s: status = %+v, finalizers %v; want a refusal", name, pool.Status, pool.Finalizers)
		}
		if _, known := s.alloc.Pools().Get(ledger.PoolID(pool.UID)); known {
			t.Errorf("%s: it is in the ledger", name)
		}
	}
}

// A root pool with only idle pools below it is not in use. When the root pool is deleted, they go with it.
func TestDerived_DoesNotCountIdlePoolsAsUse(t *testing.T) {
	s := newDerivedScene(t)
	above := s.provisions(t, "net", "uid-of-root", 24, ledger.Holder{})
	below := s.provisions(t, "sub", above.ID, 28, ledger.Holder{})
	holder := ledger.Holder{Claim: "c", Cluster: "w", Namespace: "default", Name: "c"}
	must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: below.ID, Length: 32, Holder: holder}))(t)
	if used, said := inUse(s.pool(t, "root")); !used {
		t.Errorf("InUse = %t, %q; want true while a claim is in a pool below", used, said)
	}
	must.Do(t, s.alloc.Release(t.Context(), "c"))
	root := s.pool(t, "root")
	if used, said := inUse(root); used || said != "nobody uses the pool; 1 idle pool has a block of it until 12:40:07 UTC" || root.Status.Capacity.Allocated != "256" {
		t.Errorf("InUse = %t, %q, allocated %s; want false, and whose the 256 addresses are until when", used, said, root.Status.Capacity.Allocated)
	}
	must.Do(t, s.workspace.Delete(t.Context(), root))
	must.Get(s.Reconcile(t.Context(), inbox.Request("w", client.ObjectKey{Name: "root"})))(t)
	for _, id := range []ledger.PoolID{"uid-of-root", above.ID, below.ID} {
		if _, known := s.alloc.Pools().Get(id); known {
			t.Errorf("pool %s is in the ledger still", id)
		}
	}
}

// A pool that is deleted while it is in use is not Ready, and its status says which claim has a block of it.
func TestRetire_SaysWhoHoldsADrainingPool(t *testing.T) {
	s := newDerivedScene(t)
	holder := ledger.Holder{Claim: "c", Cluster: "w", Namespace: "default", Name: "c"}
	must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: "uid-of-root", Length: 32, Holder: holder}))(t)
	must.Do(t, s.workspace.Delete(t.Context(), s.pool(t, "root")))
	root := s.pool(t, "root")
	for kind, want := range map[string]metav1.ConditionStatus{
		ipamv1alpha1.ConditionDraining: metav1.ConditionTrue, ipamv1alpha1.ConditionReady: metav1.ConditionFalse, ipamv1alpha1.ConditionReconciling: metav1.ConditionTrue,
	} {
		got := meta.FindStatusCondition(root.Status.Conditions, kind)
		if got == nil || got.Status != want || got.Reason != string(ipamv1alpha1.ReasonBlockInUse) || !strings.Contains(got.Message, "claim default/c") {
			t.Errorf("%s of the deleted pool is %+v; want %s, with the claim that holds a block", kind, got, want)
		}
	}
	if root.Status.Phase != ipamv1alpha1.PoolPending {
		t.Errorf("the deleted pool is %s; want Pending", root.Status.Phase)
	}
}

// The figures of a pool with address spaces are those of the fullest address space.
func TestDerived_ShowsTheFullestAddressSpace(t *testing.T) {
	s := newDerivedScene(t)
	for i, name := range []string{"a", "b"} {
		space := ledger.Derived{Of: "uid-of-root", Workspace: "w", Scope: network(name)}
		for j := range i + 1 {
			holder := ledger.Holder{Claim: ledger.ClaimID(name + string(rune('0'+j))), Cluster: "w", Namespace: "default", Name: name}
			must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: space.ID(), Begins: &space, Length: 32, Holder: holder}))(t)
		}
	}
	pool := s.pool(t, "root")
	if used, said := inUse(pool); pool.Status.Spaces != 2 || pool.Status.Capacity.Allocated != "2" || !used {
		t.Errorf("spaces = %d, allocated %s, InUse %t %q; want 2 spaces, the fullest with 2 addresses, in use", pool.Status.Spaces, pool.Status.Capacity.Allocated, used, said)
	}
}

// lists counts how often blocks are listed.
type lists struct {
	views.Blocks
	count int
}

func (l *lists) List(ctx context.Context, o allocator.ListOptions) iter.Seq2[ledger.Block, error] {
	l.count++
	return l.Blocks.List(ctx, o)
}

// The blocks in address spaces of other workspaces are counted, and not listed. There may be any number of these
// address spaces, and the status of a pool is written several times a second.
func TestDerived_ListsNoAddressSpacesOfOthers(t *testing.T) {
	s := newDerivedScene(t)
	counted := &lists{Blocks: s.alloc}
	s.Ledger.Blocks = counted
	for _, in := range []ledger.ClusterName{"a", "b", "c", "w"} {
		space := ledger.Derived{Of: "uid-of-root", Workspace: in, Scope: network("n")}
		holder := ledger.Holder{Claim: ledger.ClaimID(in), Cluster: in, Namespace: "default", Name: "of-" + string(in)}
		must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: space.ID(), Begins: &space, Length: 32, Holder: holder}))(t)
	}
	s.pool(t, "root")
	counted.count = 0
	_, err := s.Reconcile(t.Context(), inbox.Request("w", client.ObjectKey{Name: "root"}))
	if err != nil || counted.count != 1 {
		t.Errorf("a pass lists blocks %d times, %v; want those of the address space of its workspace alone", counted.count, err)
	}
	if used, said := inUse(s.pool(t, "root")); !used || said != "the pool holds 4 blocks, of claim default/of-w and 3 others" {
		t.Errorf("InUse = %t, %q; want 4 blocks, with the one of the workspace by name", used, said)
	}
}

// compares notes the pools for which the ledger was compared with a status.
type compares struct {
	adopted
	ids []ledger.PoolID
}

func (c *compares) Whole(ctx context.Context, id ledger.PoolID, shown ipamv1alpha1.IPPoolStatus) (bool, error) {
	c.ids = append(c.ids, id)
	return c.adopted.Whole(ctx, id, shown)
}

// A workspace has a forged IPPool that shows the pool which all workspaces share. Its status was stored past all
// policies. The shared pool is not compared with that status: the ledger would seem to lack something, and the pool
// would freeze.
func TestDerived_IgnoresAForgedStatusOfASharedPool(t *testing.T) {
	shared := ledger.Derived{Class: "net", Scope: network("a")}
	forged := made("a")
	forged.Status.ScopeDigest, forged.Status.AllocatedCIDR = ledger.Digest(shared.ID()), "10.0.9.0/24"
	s := newDerivedScene(t, forged)
	noted := &compares{}
	s.Adoption = noted
	s.pool(t, forged.Name)
	s.pool(t, "root")
	if slices.Contains(noted.ids, shared.ID()) {
		t.Errorf("compared were %v, with the pool that all share", noted.ids)
	}
}
