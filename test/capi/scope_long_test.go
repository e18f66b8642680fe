//go:build long

package capi

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// With --namespace the controller serves the claims of that namespace. In another one, a claim gets no
// address, and one that is deleted keeps its own. Without the flag both are served.
func namespaced(t *testing.T, s *scene) {
	_, _, cidr := s.network(t, 28)
	s.offer(t, gen.Pool("scope", gen.CIDR(cidr)))
	framework.Create(t, s, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
	leaves, waits := claim("leaves", "IPPool", "scope"), claim("waits", "IPPool", "scope")
	leaves.Namespace, waits.Namespace = "elsewhere", "elsewhere"
	framework.Create(t, s, leaves)
	kept := s.address(t, leaves).Spec.Address
	s.management.RestartController(t, "--namespace=default")
	framework.Create(t, s, waits)
	framework.Delete(t, s, leaves)
	s.passed(t, "served", "scope")
	s.untouched(t, waits)
	if got := s.address(t, leaves).Spec.Address; got != kept {
		t.Errorf("the claim of another namespace that is deleted has %s; want %s, as before", got, kept)
	}
	if held, found := s.ipClaim(t, leaves); !found || held.DeletionTimestamp != nil || held.Status.Address != kept {
		t.Errorf("its IPClaim is %+v; want one that holds %s", held, kept)
	}
	s.management.RestartController(t)
	framework.WaitGone(t, s, leaves)
	s.nothingLeft(t, leaves)
	s.address(t, waits)
	s.release(t, waits)
}
