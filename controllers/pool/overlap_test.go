package pool

import (
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
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
