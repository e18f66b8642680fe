package e2e

import (
	"context"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A claim of the same name, class and length gets its retained block back with its CREATE. The block
// is then its own: it is retained again, or freed, with it.
func TestReuse(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Reclaim(ipamv1alpha1.ReclaimRetain), gen.Lease("1h"), gen.OnRetained(ipamv1alpha1.RetainedReuse))
	pool := s.pool(s.cidr)
	former := s.holds("web", gen.Length(28))
	framework.Delete(t, s.tenant, former)
	record := s.retained(former)
	for _, options := range [][]gen.ClaimOption{
		{gen.Length(28), gen.Unmet(ipamv1alpha1.UnmetRefuse)},
		{gen.Address(former.Status.AllocatedCIDR)},
		{gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimDelete)},
	} {
		claim := gen.Claim("web", append(options, gen.OfClass(s.name))...)
		// The replica that answers sees the retained record a moment later than the tenant.
		framework.Eventually(t, "the retained block to be offered", func(ctx context.Context) error {
			preview := claim.DeepCopy()
			if err := s.tenant.Create(ctx, preview, client.DryRunAll); err != nil {
				return err
			}
			if preview.Status.AllocatedCIDR != former.Status.AllocatedCIDR {
				return fmt.Errorf("the preview shows %+v", preview.Status)
			}
			return nil
		})
		framework.Create(t, s.tenant, claim)
		if claim.Status.Phase != ipamv1alpha1.ClaimBound || claim.Status.AllocatedCIDR != former.Status.AllocatedCIDR {
			t.Errorf("CREATE returned %+v, want it bound to %s", claim.Status, former.Status.AllocatedCIDR)
		}
		framework.WaitBound(t, s.tenant, claim)
		now := recordOf(t, s.tenant, claim)
		if now.UID == record.UID || now.Spec.ClaimRef == nil || now.Spec.ClaimRef.UID != claim.UID || now.Status.Expires != nil {
			t.Errorf("the record is %+v, want that of the new claim, without an end", now)
		}
		waitHeld(t, s.platform, pool, size(blockOf(t, former)))
		framework.Delete(t, s.tenant, claim)
		framework.WaitGone(t, s.tenant, claim.DeepCopy())
		if claim.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimDelete {
			record = s.retained(claim)
		}
	}
	waitUnrecorded(t, s.tenant, "web")
	waitHeld(t, s.platform, pool, size())
}
