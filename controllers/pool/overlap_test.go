package pool

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// A pool that changes wakes the root pools that share addresses with it, in one workspace or in all, and no others.
func TestRoots_FindThePoolsThatShareAddresses(t *testing.T) {
	request := func(name string) mcreconcile.Request {
		return mcreconcile.Request{Request: reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}}
	}
	var r roots
	for name, cidr := range map[string]string{"inside": "10.64.0.0/16", "beside": "10.0.0.0/16", "gone": "10.64.0.0/16"} {
		r.enter("web", request(name), netip.MustParsePrefix(cidr))
	}
	r.enter("db", request("around"), netip.MustParsePrefix("10.0.0.0/8"))
	r.leave("web", request("gone"))
	r.leave("nobody", request("gone"))
	space := netip.MustParsePrefix("10.64.0.0/12")
	if got := r.sharing("web", space); len(got) != 1 || got[0] != request("inside") {
		t.Errorf("of web, %v are woken; want the pool inside", got)
	}
	if got := r.sharing("", space); len(got) != 2 {
		t.Errorf("%v are woken; want one of each workspace", got)
	}
	r.leave("db", request("around"))
	if len(r.pools) != 1 {
		t.Errorf("%d workspaces are kept; want 1", len(r.pools))
	}
}

// A pool that was made for a scope in the workspace of the platform wakes no root pool of a tenant: it backs no class,
// and any tenant makes such pools. A pool that was made for a scope in the tenant's own workspace wakes the tenant's
// root pool.
func TestWakeRoots_IgnoresNetworksOfThePlatform(t *testing.T) {
	r := &Reconciler{Options: Options{Directory: directory.New(directory.Workspace{Cluster: "platform", Path: "root:ipam"})}}
	r.roots.enter("web", inbox.Request("web", client.ObjectKey{Name: "own"}), netip.MustParsePrefix("10.0.0.0/8"))
	authored, network := gen.Pool("p"), gen.Pool("n")
	network.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "vpc"}
	network.Spec.ParentPoolRef = &ipamv1alpha1.PoolRef{Name: "p", ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:ipam"}}
	for _, pool := range []*ipamv1alpha1.IPPool{authored, network} {
		pool.Status.AllocatedCIDR = "10.1.0.0/16"
	}
	for name, tt := range map[string]struct {
		in   ledger.ClusterName
		pool *ipamv1alpha1.IPPool
		want int
	}{"authored": {"platform", authored, 1}, "a shared network": {"platform", network, 0}, "its own network": {"web", network, 1}, "that of another": {"db", network, 0}} {
		queue := inbox.NewQueue("")
		r.wakeRoots(queue, tt.in, tt.pool)
		if got := queue.Len(); got != tt.want {
			t.Errorf("%s: %d pools are woken, want %d", name, got, tt.want)
		}
		queue.ShutDown()
	}
}

// A pool whose classes differ in uniqueWithin says so as long as they do.
func TestReportDiffering_WhileTheClassesDiffer(t *testing.T) {
	clusters := testbed.Clusters{"": testbed.NewWorkspace(t, gen.Class("flat"), gen.Class("vrf", gen.UniqueWithin("network")))}
	known := directory.New(directory.Workspace{Cluster: "platform"})
	p := &pass{Reconciler: &Reconciler{Options: Options{Directory: known, Catalog: &catalog.Catalog{Clusters: clusters, Directory: known}}}, pool: gen.Pool("p"), owner: known.Platform()}
	p.cluster = testbed.NewWorkspace(t)
	for _, step := range []struct {
		classes []string
		differ  bool
	}{{[]string{"flat"}, false}, {[]string{"flat", "vrf"}, true}, {[]string{"vrf", "flat"}, true}, {[]string{"vrf", "unheard"}, false}} {
		p.pool.Spec.ClassNames = step.classes
		unfit := must.Get(p.unfit(t.Context()))(t)
		succeeded(p.pool, ledger.Pool{CIDR: netip.MustParsePrefix("10.0.0.0/24")}, capacity("256", "0", 24), "", unfit)
		if got := p.pool.Status.Phase; (got == ipamv1alpha1.PoolError) != step.differ || meta.IsStatusConditionTrue(p.pool.Status.Conditions, ipamv1alpha1.ConditionReady) == step.differ {
			t.Errorf("of classes %v the pool is %s with %+v; want that it is ready: %t", step.classes, got, p.pool.Status.Conditions, !step.differ)
		}
		said := meta.FindStatusCondition(p.pool.Status.Conditions, ipamv1alpha1.ConditionClassesDiffer)
		if (said != nil) != step.differ || said != nil && (said.Reason != string(ipamv1alpha1.ReasonUniqueWithinDiffers) || !strings.Contains(said.Message, `class "vrf" within network`)) {
			t.Errorf("of classes %v the pool says %+v; want that they differ: %t", step.classes, said, step.differ)
		}
	}
}

// While a class gives the addresses of a pool out in address spaces, a child of that pool is refused. When the class
// goes, the child is requeued, and so is the pool.
func TestOnClass_WakesTheChildren(t *testing.T) {
	vrf := gen.Class("vrf", gen.UniqueWithin("network"))
	platform := testbed.NewWorkspace(t)
	platform.Client = testbed.NewClient(t).WithObjects(gen.Pool("p", gen.Backs("vrf"))).WithIndex(&ipamv1alpha1.IPPool{}, catalog.ByClass, catalog.IndexPoolByClass).Build()
	known := directory.New(directory.Workspace{Cluster: "platform", Path: "root:ipam"})
	r := &Reconciler{Options: Options{Directory: known, Catalog: &catalog.Catalog{Clusters: testbed.Clusters{"": platform}, Directory: known}}}
	child := gen.Pool("child", gen.ChildOf("p", 24))
	child.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:ipam"}
	waits := inbox.Request("w", client.ObjectKeyFromObject(child))
	r.waiting.enter(waits, waitOf(child, "w"))
	queue := inbox.NewQueue("")
	t.Cleanup(queue.ShutDown)
	r.onClass("", platform).Delete(t.Context(), event.DeleteEvent{Object: vrf}, queue)
	var woken []mcreconcile.Request
	for queue.Len() > 0 {
		request, _ := queue.Get()
		woken = append(woken, request)
	}
	if len(woken) != 2 || !slices.Contains(woken, waits) {
		t.Errorf("woken are %v; want the pool and its child", woken)
	}
}

// trusting notes which pools are trusted.
type trusting struct {
	views.Recovery
	trusted map[ledger.PoolID]bool
}

func (l trusting) Trust(id ledger.PoolID) { l.trusted[id] = true }

// If a pool cannot be read, the other pools of its address domain do not wait for it.
func TestReconcile_LetsTheDomainOfAnUnreadablePoolGoOn(t *testing.T) {
	t.Parallel()
	p, _ := newEntered(t, ledger.Pool{Space: ledger.DomainSpace("w", "d")})
	noting := trusting{p.Ledger.Recovery, map[ledger.PoolID]bool{}}
	p.Ledger.Recovery, p.odd = noting, &outcome.Fault{Message: "odd"}
	if err := p.reconcile(t.Context()); err != nil {
		t.Errorf("reconcile = %v, want nil until the pool is changed", err)
	}
	if !meta.IsStatusConditionFalse(p.pool.Status.Conditions, ipamv1alpha1.ConditionInUse) {
		t.Errorf("the empty pool has the conditions %v, want InUse=False so that it can be deleted", p.pool.Status.Conditions)
	}
	if !noting.trusted[p.id] {
		t.Error("the pool keeps its domain frozen, and the ledger lacks nothing of it")
	}
}
