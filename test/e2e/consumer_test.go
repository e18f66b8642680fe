package e2e

import (
	"context"
	"testing"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// quick has consumers looked for at once, not after a minute.
var quick = []string{"--sweep-interval=1s", "--orphan-min-age=1s"}

// A claim says so when its consumer is gone, and no longer when that is back. It keeps
// its block. Of what the controller may not read, or its author might not, nothing is
// said, however it is named.
func TestConsumer_GoneIsReported(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t).Replica(t, "quick", quick...)
	platform.StartController(t)
	name := framework.Name(t)
	offer(t, platform, name, platform.CIDR(t))
	tenant := platform.Tenant(t)
	elsewhere := &corev1.Namespace{}
	elsewhere.Name = "elsewhere"
	framework.Create(t, tenant, elsewhere)
	router := gen.Pool("router", gen.CIDR("192.168.0.0/24"))
	framework.Create(t, tenant, router)
	framework.WaitAllocated(t, tenant, router, ipamv1alpha1.ReasonAllocationSucceeded)

	own := ipamv1alpha1.GroupName
	owned := func(claim string, owner ipamv1alpha1.OwnerRef) *ipamv1alpha1.IPClaim {
		t.Helper()
		c := gen.Claim(claim, gen.OfClass(name), gen.Length(28), gen.OwnedBy(owner))
		framework.Create(t, tenant, c)
		framework.WaitBound(t, tenant, c)
		return c
	}
	silent := []*ipamv1alpha1.IPClaim{
		owned("well", ipamv1alpha1.OwnerRef{APIGroup: own, Kind: "IPPool", Name: "router", UID: router.UID}),
		owned("of-a-kind-unread", ipamv1alpha1.OwnerRef{Kind: "ConfigMap", Namespace: "default", Name: "none"}),
		owned("of-a-kind-written-only", ipamv1alpha1.OwnerRef{Kind: "Event", Namespace: "default", Name: "none"}),
		owned("of-no-kind", ipamv1alpha1.OwnerRef{APIGroup: "../../..", Kind: "None/../", Name: "none"}),
		owned("of-no-name", ipamv1alpha1.OwnerRef{APIGroup: own, Kind: "IPPool", Name: "../ippools/router"}),
		owned("of-others", ipamv1alpha1.OwnerRef{APIGroup: own, Kind: "IPClaim", Namespace: elsewhere.Name, Name: "none"}),
	}
	replaced := owned("replaced", ipamv1alpha1.OwnerRef{APIGroup: own, Kind: "IPPool", Name: "router", UID: types.UID("another")})
	leaving := owned("leaving", ipamv1alpha1.OwnerRef{APIGroup: own, Kind: "IPClaim", Namespace: "default", Name: "well"})

	framework.WaitCondition(t, tenant, replaced, ipamv1alpha1.ConditionConsumerGone, ipamv1alpha1.ReasonConsumerReplaced)
	if replaced.Status.Phase != ipamv1alpha1.ClaimBound || !meta.IsStatusConditionTrue(replaced.Status.Conditions, ipamv1alpha1.ConditionReady) {
		t.Errorf("a claim without its consumer is not bound and ready: %+v", replaced.Status)
	}
	framework.Delete(t, tenant, silent[0])
	framework.WaitCondition(t, tenant, leaving, ipamv1alpha1.ConditionConsumerGone, ipamv1alpha1.ReasonConsumerNotFound)

	framework.Create(t, tenant, gen.Claim("well", gen.OfClass(name), gen.Length(28)))
	framework.WaitFor(t, tenant, leaving, saysNothing)
	for _, claim := range silent[1:] {
		framework.Read(t, tenant, claim)
		if err := saysNothing(claim); err != nil {
			t.Errorf("claim %s: %v", claim.Name, err)
		}
	}
}

type reported struct{ reason string }

func (r reported) Error() string { return "it says that its consumer is gone: " + r.reason }

func saysNothing(claim *ipamv1alpha1.IPClaim) error {
	if c := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionConsumerGone); c != nil {
		return reported{c.Reason}
	}
	return nil
}

// Where it is wanted, a claim is deleted once its consumer is gone, and its block comes
// back: the consumer here is of a kind that the export is permitted to see. Who names
// another tenant's object has named none, and it is nothing to the other.
func TestConsumer_AbandonedClaimIsDeleted(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t).Replica(t, "tidy", append(quick, "--delete-abandoned-claims")...)
	export := &apisv1alpha2.APIExport{}
	export.Name = workspaces.ExportName
	admin := framework.Admin(t, platform.Path)
	framework.Eventually(t, "the export to ask for config maps", func(ctx context.Context) error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(export), export); err != nil {
			return err
		}
		export.Spec.PermissionClaims = append(export.Spec.PermissionClaims, apisv1alpha2.PermissionClaim{
			GroupResource: apisv1alpha2.GroupResource{Resource: "configmaps"}, Verbs: []string{"get", "list"},
		})
		return admin.Update(ctx, export)
	})
	platform.StartController(t)
	name := framework.Name(t)
	pool := offer(t, platform, name, platform.CIDR(t))
	tenant := platform.Tenant(t)
	owner := tenant.Owner(t)

	claims := map[string]*ipamv1alpha1.IPClaim{}
	for _, consumer := range []string{"stays", "goes"} {
		config := &corev1.ConfigMap{}
		config.Namespace, config.Name = "default", consumer
		framework.Create(t, owner, config)
		claims[consumer] = gen.Claim(consumer, gen.OfClass(name), gen.Length(28), gen.OwnedBy(ipamv1alpha1.OwnerRef{
			Kind: "ConfigMap", Namespace: "default", Name: consumer, UID: config.UID,
		}))
		framework.Create(t, tenant, claims[consumer])
		framework.WaitBound(t, tenant, claims[consumer])
	}
	gone := &corev1.ConfigMap{}
	gone.Namespace, gone.Name = "default", "goes"
	framework.Delete(t, owner, gone)

	neighbour := platform.Tenant(t)
	theirs := gen.Claim("theirs", gen.OfClass(name), gen.Length(28))
	framework.Create(t, neighbour, theirs)
	framework.WaitBound(t, neighbour, theirs)
	forged := gen.Claim("forged", gen.OfClass(name), gen.Length(28), gen.OwnedBy(ipamv1alpha1.OwnerRef{
		APIGroup: ipamv1alpha1.GroupName, Kind: "IPClaim", Namespace: "default", Name: theirs.Name, UID: theirs.UID,
	}))
	framework.Create(t, tenant, forged)

	framework.WaitGone(t, tenant, claims["goes"])
	framework.WaitGone(t, tenant, forged)
	waitHeld(t, platform, pool, size(blockOf(t, claims["stays"]), blockOf(t, theirs)))
	unchanged(t, neighbour, theirs)
	framework.WaitBound(t, tenant, claims["stays"])
	if err := saysNothing(claims["stays"]); err != nil {
		t.Errorf("saysNothing: %v", err)
	}
}
