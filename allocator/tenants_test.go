package allocator

import (
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// inNamespace returns a request from a namespace of a cluster.
func inNamespace(c ledger.ClusterName, namespace string, req ledger.Request) ledger.Request {
	req.Holder.Namespace = namespace
	return of(c, req)
}

// If namespaces are the tenants, each may hold as much of a pool, and by a class, as its limit says. Otherwise all
// namespaces share one limit.
func TestQuota_CountsByTenant(t *testing.T) {
	for name, tt := range map[string]struct {
		cluster ledger.ClusterName
		refused bool
	}{"namespaces": {ledger.ByNamespace("uid"), false}, "cluster": {"uid", true}} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t)
			r.bind(inNamespace(tt.cluster, "a", limited(64, 64, request("p", "one", 26))))
			r.over(inNamespace(tt.cluster, "a", limited(64, 64, request("p", "two", 32))), "", "c", "64 64 1")
			_, err := r.Bind(t.Context(), inNamespace(tt.cluster, "b", limited(64, 64, request("p", "three", 26))))
			if refused := err != nil; refused != tt.refused {
				t.Errorf("the claim of another namespace is answered with %v, want a refusal: %t", err, tt.refused)
			}
		})
	}
}

// If namespaces are the tenants, their waiting claims take turns. Otherwise the older claims of the cluster come first.
func TestWaiting_LetsTenantsTakeTurns(t *testing.T) {
	for name, tt := range map[string]struct {
		cluster ledger.ClusterName
		second  ledger.ClaimID
	}{"namespaces": {ledger.ByNamespace("uid"), "b1"}, "cluster": {"uid", "a2"}} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t)
			r.bind(request("p", "first", 25))
			r.bind(request("p", "other", 25))
			for second, claim := range []string{"a1", "a2", "a3", "b1"} {
				r.Waits().Add(since(second, inNamespace(tt.cluster, claim[:1], request("p", claim, 25))))
			}
			r.wantWoken()
			r.release("first")
			r.wantWoken("a1")
			r.release("other")
			r.wantWoken(tt.second)
		})
	}
}
