package catalog

import (
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// If namespaces are the tenants, the label of a pool names the namespace to which the pool belongs. On kcp the label
// means nothing.
func TestShownID_FindsThePoolOfANamespace(t *testing.T) {
	for cluster, tenant := range map[ledger.ClusterName]ledger.ClusterName{ledger.ByNamespace("uid"): "uid.ns.red", "uid": "uid"} {
		id := ledger.DerivedID("vpc", tenant, ledger.Scope{})
		pool := gen.Pool("net", gen.Label(ipamv1alpha1.LabelProvisionedFor, "red"))
		pool.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "vpc"}
		pool.Status.ScopeDigest = ledger.Digest(id)
		if got, ok := ShownID(pool, cluster, cluster); !ok || got != id || !slices.Contains(DerivedIDs(pool, cluster), id) {
			t.Errorf("in %s the pool shows %s, %t; want %s", cluster, got, ok, id)
		}
		pool.Labels[ipamv1alpha1.LabelProvisionedFor] = "blue"
		if got, ok := ShownID(pool, cluster, cluster); ok != (tenant == cluster) {
			t.Errorf("in %s the pool with the label of another namespace shows %s, %t", cluster, got, ok)
		}
	}
}
