package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// A claim that is deleted and created again at once gets its block back, too, however little of the
// former one was settled by then.
func TestReuse_AtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Reclaim(ipamv1alpha1.ReclaimRetain), gen.OnRetained(ipamv1alpha1.RetainedReuse))
	pool := s.pool(s.cidr)
	claim := s.holds("web", gen.Length(28))
	want := claim.Status.AllocatedCIDR
	for range 5 {
		framework.Delete(t, s.tenant, claim)
		claim = s.holds("web", gen.Length(28))
		if got := claim.Status.AllocatedCIDR; got != want {
			t.Fatalf("the claim got %s, want %s", got, want)
		}
	}
	waitHeld(t, s.platform, pool, size(blockOf(t, claim)))
}

// What differs is said, whether by CREATE or later, and nothing of another namespace or workspace is
// reused. When the class says so, a claim that waits gets the block after all.
func TestReuse_Refused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	s.pool(s.cidr)
	other := framework.Name(t) + "-other"
	framework.Create(t, s.platform, gen.Class(other))
	s.changePool(func(spec *ipamv1alpha1.IPPoolSpec) { spec.ClassNames = append(spec.ClassNames, other) })
	former := s.holds("web", gen.Length(28))
	framework.Delete(t, s.tenant, former)
	kept := s.retained(former)
	reuse := gen.OnRetained(ipamv1alpha1.RetainedReuse)
	refused := func(says string, class string, options ...gen.ClaimOption) *ipamv1alpha1.IPClaim {
		t.Helper()
		claim := gen.Claim("web", append(options, gen.OfClass(class))...)
		framework.Create(t, s.tenant, claim)
		framework.WaitAllocated(t, s.tenant, claim, ipamv1alpha1.ReasonAllocationRetained)
		showsRefusal(t, claim, says, false)
		showsRefusal(t, claim, kept.Name, false)
		return claim
	}
	longer := refused("asks for a /29", s.name, gen.Length(29), reuse)
	framework.Delete(t, s.tenant, longer)
	framework.WaitGone(t, s.tenant, longer.DeepCopy())
	byOther := refused(fmt.Sprintf("by class %q", other), other, gen.Length(28), reuse)
	framework.Delete(t, s.tenant, byOther)
	framework.WaitGone(t, s.tenant, byOther.DeepCopy())
	waits := refused("retainedPolicy to Reuse", s.name, gen.Length(28))
	namespace := &corev1.Namespace{}
	namespace.Name = "elsewhere"
	framework.Create(t, s.tenant, namespace)
	elsewhere := s.holds("web", gen.Length(28), reuse, gen.Namespace("elsewhere"))
	stranger := gen.Claim("web", gen.OfClass(s.name), gen.Length(28), reuse)
	tenant := s.platform.Tenant(t)
	framework.Create(t, tenant, stranger)
	framework.WaitBound(t, tenant, stranger)
	disjointIn(t, s.cidr, blockOf(t, former), blockOf(t, elsewhere), blockOf(t, stranger))
	if now := s.retained(former); now.ResourceVersion != kept.ResourceVersion {
		t.Errorf("the record is %+v, was %+v; want it unchanged", now, kept)
	}

	s.changeClass(func(spec *ipamv1alpha1.IPClassSpec) { spec.RetainedPolicy = ipamv1alpha1.RetainedReuse })
	framework.WaitBound(t, s.tenant, waits)
	if waits.Status.AllocatedCIDR != former.Status.AllocatedCIDR {
		t.Errorf("the claim that waited got %s, want %s", waits.Status.AllocatedCIDR, former.Status.AllocatedCIDR)
	}
}
