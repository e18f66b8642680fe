package e2e

import (
	"testing"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// Where it is wanted, a claim is deleted once its consumer is gone, and its block comes
// back: the consumer here is of a kind that the export is permitted to see. Who names
// another tenant's object has named none, and it is nothing to the other.
func TestConsumer_AbandonedClaimIsDeleted(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t).Replica(t, "tidy", "--sweep-interval=1s", "--orphan-min-age=1s", "--delete-abandoned-claims")
	export := &apisv1alpha2.APIExport{}
	export.Name = workspaces.ExportName
	framework.Change(t, framework.Admin(t, platform.Path), export, func(export *apisv1alpha2.APIExport) {
		export.Spec.PermissionClaims = append(export.Spec.PermissionClaims, apisv1alpha2.PermissionClaim{
			GroupResource: apisv1alpha2.GroupResource{Resource: "configmaps"}, Verbs: []string{"get", "list"},
		})
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
		framework.Bind(t, tenant, claims[consumer])
	}
	gone := &corev1.ConfigMap{}
	gone.Namespace, gone.Name = "default", "goes"
	framework.Delete(t, owner, gone)

	neighbour := platform.Tenant(t)
	theirs := gen.Claim("theirs", gen.OfClass(name), gen.Length(28))
	framework.Bind(t, neighbour, theirs)
	forged := gen.Claim("forged", gen.OfClass(name), gen.Length(28), gen.OwnedBy(ipamv1alpha1.OwnerRef{
		APIGroup: ipamv1alpha1.GroupName, Kind: "IPClaim", Namespace: "default", Name: theirs.Name, UID: theirs.UID,
	}))
	framework.Create(t, tenant, forged)

	framework.WaitGone(t, tenant, claims["goes"])
	framework.WaitGone(t, tenant, forged)
	waitHeld(t, platform, pool, size(blockOf(t, claims["stays"]), blockOf(t, theirs)))
	unchanged(t, neighbour, theirs)
	framework.WaitBound(t, tenant, claims["stays"])
	if c := meta.FindStatusCondition(claims["stays"].Status.Conditions, ipamv1alpha1.ConditionConsumerGone); c != nil {
		t.Errorf("a claim whose consumer is there says that it is gone: %+v", c)
	}
}
