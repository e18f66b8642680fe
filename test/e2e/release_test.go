package e2e

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A namespace takes its claims with it, and their blocks are free.
func TestRelease_WithNamespace(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)
	tenant := platform.Tenant(t)

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "short-lived"}}
	framework.Create(t, tenant, namespace)
	stays := gen.Claim("web", gen.OfClass(name), gen.Length(28))
	goes := gen.Claim("web", gen.OfClass(name), gen.Length(28), gen.Namespace(namespace.Name))
	framework.Bind(t, tenant, stays, goes)
	waitHeld(t, platform, pool, size(blockOf(t, stays), blockOf(t, goes)))

	framework.Delete(t, tenant, namespace)
	framework.WaitGone(t, tenant, namespace)
	waitHeld(t, platform, pool, size(blockOf(t, stays)))
}

// waitUnrecorded waits until there is no IPAllocation of a claim of the namespace default.
func waitUnrecorded(t *testing.T, c client.Reader, claim string) {
	t.Helper()
	record := &ipamv1alpha1.IPAllocation{}
	record.Namespace = metav1.NamespaceDefault
	record.Name = ipamv1alpha1.AllocationName(record.Namespace, claim)
	framework.WaitGone(t, c, record)
}

// The record of a bound claim that vanishes is written again, with the same block. It is
// never taken for a release.
func TestRecord_WrittenAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(part(s.cidr, 27))
	claim := s.holds("web", gen.Length(28))
	before := recordOf(t, s.tenant, claim)

	framework.Delete(t, framework.System(t, s.tenant.Path), before.DeepCopy())
	again := before.DeepCopy()
	framework.Eventually(t, "the record to be written again", func(ctx context.Context) error {
		if err := s.tenant.Get(ctx, client.ObjectKeyFromObject(before), again); err != nil {
			return err
		}
		if again.UID == before.UID {
			return errors.New("it is still the former one")
		}
		return nil
	})
	if got := again.Status.AllocatedCIDR; got != claim.Status.AllocatedCIDR {
		t.Errorf("the record says %s, want %s", got, claim.Status.AllocatedCIDR)
	}
	unchanged(t, s.tenant, claim)
	waitHeld(t, s.platform, pool, size(blockOf(t, claim)))
}
