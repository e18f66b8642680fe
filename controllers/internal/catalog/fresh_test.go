package catalog

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A pool that is made Ready is shown so before the cache shows it, and as the cache has it afterwards.
func TestView_APoolMadeReady(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := ipamv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pool := gen.Pool("p", gen.CIDR("10.0.0.0/24"), gen.Backs("c"))
	pool.UID = "uid-of-p"
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pool, gen.Pool("other", gen.Backs("c"))).
		WithStatusSubresource(pool).WithIndex(pool, ByClass, IndexPoolByClass).Build()
	home := directory.Workspace{Cluster: "platform"}
	c := &Catalog{Clusters: platform{reader: reader}, Directory: directory.New(home)}
	shows := func(when string, want bool) {
		t.Helper()
		view := c.View(t.Context())
		one, _ := view.Pool(home, "p")
		ready := map[string]bool{"Pool": resolve.Ready(one)}
		for _, p := range view.Pools(home) {
			ready["Pools: "+p.Name] = resolve.Ready(p)
		}
		for _, p := range view.Backing(home, "c") {
			ready["Backing: "+p.Name] = resolve.Ready(p)
		}
		for what, got := range ready {
			if got != (want && what != "Pools: other" && what != "Backing: other") {
				t.Errorf("%s: %s is Ready: %t", when, what, got)
			}
		}
		if len(ready) != 5 || view.Err() != nil {
			t.Errorf("%s: the view shows %v, %v; want both pools", when, ready, view.Err())
		}
	}
	shows("before", false)

	if err := reader.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
		t.Fatal(err)
	}
	pool.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionTrue}}
	c.Readied(pool)
	shows("while the cache lags", true)

	pool.Status.Conditions[0].Status = metav1.ConditionFalse
	if err := reader.Status().Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	shows("when the cache shows a later version", false)
}
