package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// ha is a platform with two replicas on an etcd of three members, and a tenant of it.
type ha struct {
	*testing.T
	store    *etcd.Cluster
	replicas framework.Replicas
	tenant   *framework.Tenant
	class    string
}

func newHA(t *testing.T, flags ...string) ha {
	t.Helper()
	store, platform := framework.NewEtcd(t), framework.NewPlatform(t)
	h := ha{T: t, store: store, class: framework.Name(t), replicas: platform.Replicas(t, 2, slices.Concat(store.Flags(), flags)...)}
	h.replicas.Start(t)
	offer(t, platform, h.class, platform.CIDR(t))
	h.tenant = platform.Tenant(t)
	return h
}

// claim makes claims, but does not wait until they are bound.
func (h ha) claim(names ...string) []*ipamv1alpha1.IPClaim {
	h.Helper()
	var claims []*ipamv1alpha1.IPClaim
	for _, name := range names {
		claim := gen.Claim(name, gen.OfClass(h.class), gen.Length(28))
		framework.Create(h, h.tenant, claim)
		claims = append(claims, claim)
	}
	return claims
}

// holds makes claims, and waits until they are bound.
func (h ha) holds(names ...string) {
	h.Helper()
	framework.WaitBound(h, h.tenant, h.claim(names...)...)
}

// inOrder fails the test unless every claim is bound to a CIDR of its own, and the verifier finds nothing. It returns
// the claims.
func (h ha) inOrder() map[string]ipamv1alpha1.IPClaim {
	h.Helper()
	list := &ipamv1alpha1.IPClaimList{}
	must.Do(h, h.tenant.List(h.Context(), list))
	claims, holders := map[string]ipamv1alpha1.IPClaim{}, map[string]string{}
	for _, claim := range list.Items {
		framework.WaitBound(h, h.tenant, &claim)
		if other, twice := holders[claim.Status.AllocatedCIDR]; twice {
			h.Errorf("%s was given to %s and to %s", claim.Status.AllocatedCIDR, other, claim.Name)
		}
		holders[claim.Status.AllocatedCIDR], claims[claim.Name] = claim.Name, claim
	}
	h.replicas[0].WaitVerified(h, h.store.Flags()...)
	return claims
}

// names returns n names with this prefix.
func names(prefix string, n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint(prefix, i))
	}
	return list
}

// Of two replicas, one works. When it stands still for longer than its lease, is asked to stop, or is killed, the
// other one goes on where it was. It also goes on without a member of etcd. A leader that wakes up with old memory,
// and with work half done, does no harm: it ends, and overwrites nothing.
func TestReplicas(t *testing.T) {
	t.Parallel()
	h := newHA(t)
	first := h.replicas.Leader(t)
	h.holds(slices.Concat(names("goes-", 4), names("again-", 4))...)

	t.Log("the leader is paused")
	half := h.claim(names("half-", 8)...)
	first.PauseController(t)
	for _, name := range slices.Concat(names("goes-", 4), names("again-", 4)) {
		framework.Delete(t, h.tenant, gen.Claim(name))
	}
	second := h.replicas.Leader(t, first)
	framework.WaitBound(t, h.tenant, half...)
	h.hasReleased(names("goes-", 4))
	h.holds(slices.Concat(names("new-", 4), names("again-", 4))...)
	before := h.inOrder()

	t.Log("it wakes up")
	first.ResumeController(t)
	first.WaitControllerEnded(t)
	h.holds("since-it-woke")
	after := h.inOrder()
	for name, claim := range before {
		if now := after[name]; now.UID != claim.UID || now.ResourceVersion != claim.ResourceVersion {
			t.Errorf("claim %s was written by the leader that woke up (-before +after):\n%s", name, cmp.Diff(claim, now))
		}
	}

	t.Log("a member of etcd is killed, then the leader is stopped")
	first.StartController(t)
	waiting := h.claim(names("without-a-member-", 8)...)
	must.Do(t, h.store.Members[0].Kill())
	framework.WaitBound(t, h.tenant, waiting...)
	second.StopController(t)
	h.holds("after-a-stop")

	t.Log("the leader is killed")
	must.Get(h.store.Members[0].Start())(t)
	second.StartController(t)
	waiting = h.claim(names("killed-", 8)...)
	first.KillController(t)
	framework.WaitBound(t, h.tenant, waiting...)
	if claims := h.inOrder(); len(claims) != len(before)+1+8+1+8 {
		t.Errorf("there are %d claims, want %d", len(claims), len(before)+18)
	}
}

// hasReleased waits until the records of claims are gone.
func (h ha) hasReleased(names []string) {
	h.Helper()
	framework.Eventually(h, "the records to be gone", func(ctx context.Context) error {
		records := &ipamv1alpha1.IPAllocationList{}
		if err := h.tenant.List(ctx, records, client.InNamespace(gen.Claim("").Namespace)); err != nil {
			return err
		}
		for _, record := range records.Items {
			if ref := record.Spec.ClaimRef; ref != nil && slices.Contains(names, ref.Name) {
				return fmt.Errorf("that of %s is there", ref.Name)
			}
		}
		return nil
	})
}
