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

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// A pool that changes wakes the root pools that have addresses of it, of one workspace or of all, and no others.
func TestRoots(t *testing.T) {
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

// A pool whose classes differ in uniqueWithin says so as long as they do.
func TestReportDiffering(t *testing.T) {
	clusters := testbed.Clusters{"": testbed.NewWorkspace(t, gen.Class("flat"), gen.Class("vrf", gen.UniqueWithin("network")))}
	known := directory.New(directory.Workspace{Cluster: "platform"})
	p := &pass{Reconciler: &Reconciler{Options: Options{Directory: known, Catalog: &catalog.Catalog{Clusters: clusters, Directory: known}}}, pool: gen.Pool("p"), owner: known.Platform()}
	p.cluster = testbed.NewWorkspace(t)
	for _, step := range []struct {
		classes []string
		differ  bool
	}{{[]string{"flat"}, false}, {[]string{"flat", "vrf"}, true}, {[]string{"vrf", "flat"}, true}, {[]string{"vrf", "unheard"}, false}} {
		p.pool.Spec.ClassNames = step.classes
		if err := p.reportDiffering(t.Context()); err != nil {
			t.Fatal(err)
		}
		said := meta.FindStatusCondition(p.pool.Status.Conditions, ipamv1alpha1.ConditionClassesDiffer)
		if (said != nil) != step.differ || said != nil && (said.Reason != string(ipamv1alpha1.ReasonUniqueWithinDiffers) || !strings.Contains(said.Message, `class "vrf" within network`)) {
			t.Errorf("of classes %v the pool says %+v; want that they differ: %t", step.classes, said, step.differ)
		}
	}
}

// A child is refused while a class gives the addresses of its parent out in address spaces. When the class goes, the child is looked at,
// beside the parent itself.
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
