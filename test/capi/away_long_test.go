//go:build long

package capi

import (
	"strings"
	"testing"

	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Claims of one name in two management clusters have an address each, and give back their own alone.
func namesakes(t *testing.T, first, second *scene) {
	_, _, cidr := first.network(t, 28)
	first.offer(t, gen.Pool("namesakes", gen.CIDR(cidr)))
	one, other := claim("namesake", "IPPool", "namesakes"), claim("namesake", "IPPool", "namesakes")
	framework.Create(t, first, one)
	framework.Create(t, second, other)
	a, b := first.address(t, one).Spec.Address, second.address(t, other).Spec.Address
	if a == b {
		t.Errorf("both management clusters have %s", a)
	}
	first.release(t, one)
	held, found := second.ipClaim(t, other)
	if !found || held.DeletionTimestamp != nil || held.Status.Address != b {
		t.Errorf("after the namesake was deleted the IPClaim is %+v; want one that holds %s", held, b)
	}
	second.release(t, other)
}

// Addresses of a management cluster that is away stay taken. The other one is served meanwhile.
func managementAway(t *testing.T, first, second *scene) {
	_, _, cidr := first.network(t, 28)
	first.offer(t, gen.Pool("away", gen.CIDR(cidr)))
	stays, leaves := claim("stays", "IPPool", "away"), claim("leaves", "IPPool", "away")
	framework.Create(t, first, stays, leaves)
	kept := first.address(t, stays).Spec.Address
	first.address(t, leaves)
	first.management.StopCluster(t)
	second.passed(t, "beside-away", "away")
	first.management.StartCluster(t)
	framework.Delete(t, first, leaves)
	late := claim("late", "IPPool", "away")
	framework.Create(t, first, late)
	first.address(t, late)
	framework.WaitGone(t, first, leaves)
	first.nothingLeft(t, leaves)
	if got := first.address(t, stays).Spec.Address; got != kept {
		t.Errorf("the claim that stays has %s; want %s, as before", got, kept)
	}
	first.release(t, stays, late)
}

// While kcp is away, claims of both clusters wait to be bound and to be released. When it is back, they
// are, and nothing is left: by a controller that ran meanwhile, and by one that was started again and
// again, as its Deployment does.
func workspaceAway(t *testing.T, first, second *scene) {
	_, _, cidr := first.network(t, 28)
	first.offer(t, gen.Pool("outage", gen.CIDR(cidr)))
	var leaving, coming []*capiv1.IPAddressClaim
	both := []*scene{first, second}
	for range both {
		leaving, coming = append(leaving, claim("leaving", "IPPool", "outage")), append(coming, claim("coming", "IPPool", "outage"))
	}
	for i, s := range both {
		framework.Create(t, s, leaving[i])
		s.address(t, leaving[i])
	}
	framework.KillKCP(t)
	for i, s := range both {
		framework.Delete(t, s, leaving[i])
		framework.Create(t, s, coming[i])
	}
	first.controller.KillController(t)
	first.awaits(t, "workspace")
	framework.StartKCP(t)
	first.controller.StartController(t)
	for i, s := range both {
		framework.WaitGone(t, s, leaving[i])
		s.nothingLeft(t, leaving[i])
		s.address(t, coming[i])
	}
	if a, b := first.address(t, coming[0]).Spec.Address, second.address(t, coming[1]).Spec.Address; a == b {
		t.Errorf("both management clusters have %s", a)
	}
	for i, s := range both {
		s.release(t, coming[i])
	}
}

// awaits starts the controller while one of its servers is away: it ends, and says which one.
func (s *scene) awaits(t *testing.T, server string) {
	t.Helper()
	for range 2 {
		said := s.management.FailController(t)
		if !strings.Contains(said, "ipam-controller: "+server+" https://") || !strings.Contains(said, "connection refused") {
			t.Errorf("without its %s the controller ends with:\n%s\nwant the server that does not answer", server, said)
		}
	}
}
