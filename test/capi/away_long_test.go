//go:build long

package capi

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/capi"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/must"
)

// Claims of the same name in two management clusters have an address each, and release only their own.
func namesakes(t *testing.T, first, second *scene) {
	first.offerMany(t, "namesakes")
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

// Addresses of a management cluster that is away stay allocated. The other cluster is served meanwhile.
func managementAway(t *testing.T, first, second *scene) {
	first.offerMany(t, "away")
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

// While kcp is away, claims of both clusters wait to be bound and to be released. When it is back, this happens, and
// nothing is left over: with a controller that ran meanwhile, and with one that was started again and again, as by
// its Deployment.
func workspaceAway(t *testing.T, first, second *scene) {
	first.offerMany(t, "outage")
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

// awaits starts the controller while one of its servers is away, and fails the test unless it ends and names that
// server.
func (s *scene) awaits(t *testing.T, server string) {
	t.Helper()
	for range 2 {
		said := s.management.FailController(t)
		if !strings.Contains(said, "ipam-controller: "+server+" https://") || !strings.Contains(said, "connection refused") {
			t.Errorf("without its %s the controller ends with:\n%s\nwant the server that does not answer", server, said)
		}
	}
}

// A management cluster that was restored from an older copy has forgotten running machines, and a clone never knew
// them. The controller notices both, and keeps the addresses until a person releases them.
func TestLong_RestoreKeepsTheAddresses(t *testing.T) {
	platform := framework.NewPlatform(t).Reconfigured(t, "--sweep-interval=500ms", "--orphan-min-age=1s")
	platform.StartController(t)
	tenant := platform.Tenant(t)
	account := consumer(t, tenant)
	s := newSceneBeside(t, tenant, account, platform)
	s.offerMany(t, "restored")
	addresses := map[string]string{}
	serve := func(name string) *capiv1.IPAddressClaim {
		t.Helper()
		machine := claim(name, "IPPool", "restored")
		framework.Create(t, s, machine)
		got := s.address(t, machine).Spec.Address
		for other, has := range addresses {
			if has == got {
				t.Errorf("%s gets %s, which %s has", name, got, other)
			}
		}
		addresses[name] = got
		return machine
	}
	// held waits until the IPClaim of a machine is held, with its address.
	held := func(machine *capiv1.IPAddressClaim) *ipamv1alpha1.IPClaim {
		t.Helper()
		found, ok := s.ipClaim(t, machine)
		if !ok {
			t.Fatalf("the IPClaim of %s is gone", machine.Name)
		}
		framework.WaitWhile(t, s.pools, found, "it is not held", func(found *ipamv1alpha1.IPClaim) bool {
			return found.Annotations[capi.AnnotationAbandoned] != capi.Held || found.DeletionTimestamp != nil
		})
		if got, want := found.Status.Address, addresses[machine.Name]; got != want {
			t.Errorf("the IPClaim of %s has %s, want %s", machine.Name, got, want)
		}
		return found
	}
	old := serve("old")
	snapshot := s.management.Save(t)

	clone := s.management.Clone(t, account, snapshot)
	theirs, there := clientOf(t, clone.AdminConfig(t)), claim("old", "IPPool", "restored")
	must.Do(t, theirs.Patch(t.Context(), there, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	clone.StartController(t)
	framework.WaitWhile(t, theirs, there, "the clone's controller has not looked yet", func(there *capiv1.IPAddressClaim) bool {
		return len(there.Finalizers) == 0
	})
	cloned := serve("cloned")
	held(cloned)
	if got := s.address(t, cloned).Spec.Address; got != addresses["cloned"] {
		t.Errorf("beside a clone, the machine has %s, want %s", got, addresses["cloned"])
	}
	clone.KillController(t)
	s.release(t, cloned) // its own cluster deletes it
	delete(addresses, "cloned")

	raised := serve("raised")
	s.management.RestoreCluster(t, snapshot, 1_000_000_000) // while the controller runs
	kept := held(raised)
	newer := serve("newer")

	s.management.RestoreCluster(t, snapshot, 0)
	s.controller.KillController(t)
	s.controller.StartController(t)
	held(newer)
	held(raised)
	if got := s.address(t, old).Spec.Address; got != addresses["old"] {
		t.Errorf("the machine that the copy knows has %s, want %s", got, addresses["old"])
	}
	serve("latest")

	framework.Update(t, s.pools, kept, func(kept *ipamv1alpha1.IPClaim) { kept.Annotations[capi.AnnotationAbandoned] = capi.Release })
	framework.WaitGone(t, s.pools, kept)
	held(newer)
	platform.WaitVerified(t)
}
