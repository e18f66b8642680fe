//go:build long

package capi

import (
	"fmt"
	"testing"

	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/capi"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A management cluster that was restored from an older copy has forgotten machines that run, and a clone has never known them.
// Both are noticed, and the addresses are kept until a person releases them.
func TestLong_Restored(t *testing.T) {
	platform := framework.NewPlatform(t).Reconfigured(t, "--sweep-interval=500ms", "--orphan-min-age=1s")
	platform.StartController(t)
	tenant := platform.Tenant(t)
	account := consumer(t, tenant)
	s := newSceneBeside(t, tenant, account, platform)
	_, _, cidr := s.network(t, 28)
	s.offer(t, gen.Pool("restored", gen.CIDR(cidr)))
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
		framework.WaitFor(t, s.pools, found, func(found *ipamv1alpha1.IPClaim) error {
			if says := found.Annotations[capi.AnnotationAbandoned]; says != capi.Held || found.DeletionTimestamp != nil {
				return fmt.Errorf("it is not held, but %q", says)
			}
			return nil
		})
		if got, want := found.Status.Address, addresses[machine.Name]; got != want {
			t.Errorf("the IPClaim of %s has %s, want %s", machine.Name, got, want)
		}
		return found
	}
	old := serve("old")
	snapshot := s.management.Save(t)

	clone := s.management.Clone(t, account, snapshot)
	clone.StartController(t)
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
