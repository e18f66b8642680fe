package ledger_test

import (
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// A claim belongs to its namespace if namespaces are the tenants, else to its cluster. An object without a namespace
// belongs to the cluster.
func TestTenant_IsTheNamespaceOrTheCluster(t *testing.T) {
	byNamespace := ledger.ByNamespace("uid")
	for _, tt := range []struct {
		cluster   ledger.ClusterName
		namespace string
		want      ledger.ClusterName
	}{
		{"uid", "a", "uid"}, {"uid", "", "uid"}, {byNamespace, "", byNamespace}, {byNamespace, "a", "uid.ns.a"}, {"", "a", ""},
	} {
		h := ledger.Holder{Cluster: tt.cluster, Namespace: tt.namespace}
		if got := h.Tenant(); got != tt.want || got.Cluster() != tt.cluster {
			t.Errorf("a claim in %q of %q is of %q in %q, want %q", tt.namespace, tt.cluster, got, got.Cluster(), tt.want)
		}
		namespace, ok := h.Tenant().Namespace()
		if want := tt.want != tt.cluster; ok != want || want && namespace != tt.namespace {
			t.Errorf("the namespace of %q is %q, %t", h.Tenant(), namespace, ok)
		}
	}
	if one, other := byNamespace.Otherwise(), ledger.ClusterName("uid").Otherwise(); one != "uid" || other != byNamespace {
		t.Errorf("otherwise the clusters are %q and %q, want uid and %q", one, other, byNamespace)
	}
}
