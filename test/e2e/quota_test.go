package e2e

import (
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A class gives a workspace so many addresses and no more, whatever others have. The claim
// that is over waits, until its own workspace releases something or the limit is raised.
func TestQuota_OfAClass(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.MaxPerConsumer("32"))
	s.pool(s.cidr)
	s.holds("first", gen.Length(28))
	retained := s.holds("second", gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	over := gen.Claim("over", gen.OfClass(s.name), gen.Length(28))
	framework.Create(t, s.tenant, over)
	framework.WaitAllocated(t, s.tenant, over, ipamv1alpha1.ReasonQuotaExceeded)
	showsRefusal(t, over, `class "`+s.name+`": the limit of a workspace is 32 addresses; this one holds 32, and asks for 16 more`, false)

	neighbour := s.platform.Tenant(t)
	theirs := gen.Claim("theirs", gen.OfClass(s.name), gen.Length(27))
	framework.Bind(t, neighbour, theirs)
	framework.Delete(t, neighbour, theirs)
	framework.Delete(t, s.tenant, retained)
	framework.WaitGone(t, s.tenant, retained)
	next := gen.Claim("next", gen.OfClass(s.name), gen.Length(32))
	framework.Create(t, s.tenant, next)
	framework.WaitAllocated(t, s.tenant, next, ipamv1alpha1.ReasonQuotaExceeded) // what is retained counts
	framework.WaitAllocated(t, s.tenant, over, ipamv1alpha1.ReasonQuotaExceeded)

	framework.Delete(t, s.tenant, gen.Claim("first"))
	framework.WaitBound(t, s.tenant, over)
	framework.WaitAllocated(t, s.tenant, next, ipamv1alpha1.ReasonQuotaExceeded)
	s.changeClass(func(class *ipamv1alpha1.IPClassSpec) { class.MaxPerConsumer = "33" })
	framework.WaitBound(t, s.tenant, next)
}

// A shared pool gives a workspace so many addresses, whether by claims or as a child pool.
// It gives its owner no more.
func TestQuota_OfAPool(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	guest := s.platform.Tenant(t)
	pool := s.ownPool(gen.CIDR("10.0.0.0/24"), gen.MaxPerConsumer("32"),
		gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{ipamv1alpha1.Consumer(guest.Path)})
	claim := gen.Claim("web", gen.FromPoolIn(s.tenant.Path, "own"), gen.Length(28))
	framework.Bind(t, guest, claim)
	child := gen.Pool("child", gen.ChildOf("own", 27))
	child.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: s.tenant.Path}
	framework.Create(t, guest, child)
	framework.WaitAllocated(t, guest, child, ipamv1alpha1.ReasonQuotaExceeded)
	poolWaits(t, child, `pool "own": the limit of a workspace is 32 addresses; this one holds 16, and asks for 32 more`, false)

	owners := gen.Claim("owners", gen.FromPool("own"), gen.Length(26))
	framework.Create(t, s.tenant, owners)
	framework.WaitAllocated(t, s.tenant, owners, ipamv1alpha1.ReasonQuotaExceeded)
	framework.Delete(t, guest, claim)
	framework.WaitAllocated(t, guest, child, ipamv1alpha1.ReasonAllocationSucceeded)
	over := gen.Claim("over", gen.FromPoolIn(s.tenant.Path, "own"), gen.Length(32))
	framework.Create(t, guest, over)
	framework.WaitAllocated(t, guest, over, ipamv1alpha1.ReasonQuotaExceeded)
	must.Do(t, s.tenant.Patch(t.Context(), pool, merge(`{"spec": {"maxPerConsumer": null}}`)))
	framework.WaitBound(t, guest, over)
	framework.WaitBound(t, s.tenant, owners)
}
