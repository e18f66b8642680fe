package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// The strategy of a class decides which of its pools is asked first, here by the used share. The other pools follow
// when that has no room: pools of the claim's workspace before pools of the platform.
func TestStrategy_ChoosesAmongPools(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Strategy(ipamv1alpha1.LeastUtilized))
	s.pool(part(s.cidr, 24))
	for _, pool := range []*ipamv1alpha1.IPPool{
		// Of four /26 two are free, of eight all are, and of two one and a half.
		gen.Pool("a", gen.CIDR("10.1.0.0/24"), gen.Backs(s.name), gen.Excludes("10.1.0.0/25")),
		gen.Pool("b", gen.CIDR("10.2.0.0/23"), gen.Backs(s.name)),
		gen.Pool("c", gen.CIDR("10.3.0.0/25"), gen.Backs(s.name), gen.Excludes("10.3.0.96/27")),
	} {
		framework.Allocate(t, s.tenant, pool)
		serves(t, s.tenant, gen.FromPool(pool.Name))
	}

	const want = "bbbcbabbabbp"
	got := ""
	for i := range len(want) {
		from := s.holds(fmt.Sprintf("claim-%d", i), gen.Length(26)).Status.PoolRef
		if from.ProjectRef != nil {
			from.Name = "p"
		}
		got += from.Name
	}
	if got != want {
		t.Errorf("the claims were served by pools %s in turn; want %s, with the platform's last", got, want)
	}
}

// A pool may join or leave a domain while it is empty, but not while it is in use. Outside of a domain it may not
// overlap others.
func TestDomain_AdmitsOnlyEmptyPools(t *testing.T) {
	t.Parallel()
	tenant := framework.SharedPlatform(t).Tenant(t)
	older, newer := gen.Pool("older", gen.CIDR("10.0.0.0/24")), gen.Pool("newer", gen.CIDR("10.0.0.0/24"), gen.Domain("d"))
	framework.Allocate(t, tenant, older)
	framework.Create(t, tenant, newer)
	framework.WaitAllocated(t, tenant, newer, ipamv1alpha1.ReasonOverlap)

	joins := func(domain string) func(*ipamv1alpha1.IPPool) {
		return func(pool *ipamv1alpha1.IPPool) { pool.Spec.AddressDomain = domain }
	}
	framework.Update(t, tenant, older, joins("d"))
	framework.WaitAllocated(t, tenant, newer, ipamv1alpha1.ReasonAllocationSucceeded)
	first, second := gen.Claim("first", gen.FromPool("older"), gen.Length(25)), gen.Claim("second", gen.FromPool("newer"), gen.Length(25))
	framework.Bind(t, tenant, first, second)
	disjointIn(t, "10.0.0.0/24", blockOf(t, first), blockOf(t, second))

	for _, domain := range []string{"", "e"} {
		framework.WaitCondition(t, tenant, older, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
		err := tenant.Patch(t.Context(), older.DeepCopy(), merge(fmt.Sprintf(`{"spec": {"addressDomain": %q}}`, domain)))
		isRefused(t, err, "spec.addressDomain", "put a pool in use in the domain %q", domain)
	}
	framework.Delete(t, tenant, first)
	framework.WaitCondition(t, tenant, older, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
	framework.Update(t, tenant, older, joins(""))
	framework.WaitAllocated(t, tenant, older, ipamv1alpha1.ReasonOverlap)
	if status := older.Status; status.AllocatedCIDR != "" || status.Phase != ipamv1alpha1.PoolError {
		t.Errorf("the status of a pool that was refused is %+v", status)
	}
	framework.WaitBound(t, tenant, second)
	framework.Delete(t, tenant, second)
	deleteUnused(t, tenant, newer)
	framework.WaitAllocated(t, tenant, older, ipamv1alpha1.ReasonAllocationSucceeded)
	deleteUnused(t, tenant, older)
}

// If a tenant's pool has addresses that the platform also hands out to the tenant, the pool says so for as long.
func TestOverlap_IsShownWhileThePlatformGivesTheSameAddresses(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.DefaultLength(28))
	s.pool(s.cidr)
	tenant := cli{s.tenant.CLI(t, "ipam-pool-admin"), t}
	created := tenant.run("pool", "create", "own", "--cidr", string(s.cidr), "--class", s.name).ends(0)
	shows(t, created.Err, "pool own is ready", "warning: "+string(s.cidr)+" overlaps addresses that the platform hands out by class \""+s.name+"\"")
	shows(t, tenant.run("address", "show", string(s.cidr)).Err, "warning: pool own: ")
	shows(t, tenant.ok("pool", "show", "own"), "Warning:", "CIDR of its own")

	own := gen.Pool("own")
	over := func() {
		framework.WaitWhile(t, s.tenant, own, "it still says that it overlaps", func(own *ipamv1alpha1.IPPool) bool {
			return meta.FindStatusCondition(own.Status.Conditions, ipamv1alpha1.ConditionOverlapping) != nil
		})
	}
	again := func() {
		framework.WaitCondition(t, s.tenant, own, ipamv1alpha1.ConditionOverlapping, ipamv1alpha1.ReasonForeignSpace)
	}
	s.changePool(func(pool *ipamv1alpha1.IPPoolSpec) { pool.ClassNames = nil })
	over()
	s.changePool(func(pool *ipamv1alpha1.IPPoolSpec) { pool.ClassNames = []string{s.name} })
	again()
	s.changeClass(func(class *ipamv1alpha1.IPClassSpec) { class.Consumers = []ipamv1alpha1.Consumer{"root:nobody"} })
	over()
}

// A class gives a workspace a limited number of addresses, whatever other workspaces have. A claim over the limit
// waits until its own workspace releases addresses, or the limit is raised.
func TestQuota_BoundsAWorkspaceByClass(t *testing.T) {
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
	framework.WaitAllocated(t, s.tenant, next, ipamv1alpha1.ReasonQuotaExceeded) // retained blocks count
	framework.WaitAllocated(t, s.tenant, over, ipamv1alpha1.ReasonQuotaExceeded)

	framework.Delete(t, s.tenant, gen.Claim("first"))
	framework.WaitBound(t, s.tenant, over)
	framework.WaitAllocated(t, s.tenant, next, ipamv1alpha1.ReasonQuotaExceeded)
	s.changeClass(func(class *ipamv1alpha1.IPClassSpec) { class.MaxPerConsumer = "33" })
	framework.WaitBound(t, s.tenant, next)
}

// A shared pool gives a workspace a limited number of addresses, by claims and by child pools alike. The limit also
// holds for its owner.
func TestQuota_BoundsAWorkspaceByPool(t *testing.T) {
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

// A pool that is deleted right after its last claim, as by kubectl delete -f, goes at the first try. If a claim stays
// in it, the DELETE is refused at once.
func TestDrain_DeletesAClaimAndItsPoolTogether(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.platform.WaitWebhooks(t, s.tenant)
	var refused, early int
	for i := range 10 {
		pool := gen.Pool(fmt.Sprintf("short-%d", i), gen.CIDR("192.0.2.0/24"))
		claim := gen.Claim(pool.Name, gen.FromPool(pool.Name), gen.Length(28))
		framework.Create(t, s.tenant, pool)
		framework.Bind(t, s.tenant, claim)
		framework.WaitCondition(t, s.tenant, pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
		if err := s.tenant.Delete(t.Context(), pool); !apierrors.IsInvalid(err) {
			t.Errorf("the pool of a claim that stays: %v; want it to be refused", err)
		}
		begun := time.Now()
		framework.Delete(t, s.tenant, claim)
		if err := s.tenant.Delete(t.Context(), pool); err != nil {
			if refused++; time.Since(begun) < 3*time.Second { // as long as the webhook waits on a busy machine
				early++
			}
			t.Logf("after %s: %v", time.Since(begun), err)
			framework.WaitCondition(t, s.tenant, pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
			framework.Delete(t, s.tenant, pool)
		}
		framework.WaitGone(t, s.tenant, pool)
		t.Logf("deleted in %s", time.Since(begun))
	}
	if early > 0 || refused == 10 {
		t.Errorf("%d of 10 pools were not deleted at the first try, %d of them without a wait", refused, early)
	}
}

// The DELETE of a pool with a retained block is refused, and the refusal names the IPAllocation to delete.
func TestDrain_NamesARetainedBlock(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pool := s.ownPool(gen.CIDR("192.0.2.0/24"))
	claim := gen.Claim("kept", gen.FromPool(pool.Name), gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	framework.Bind(t, s.tenant, claim)
	framework.WaitCondition(t, s.tenant, pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
	framework.Delete(t, s.tenant, claim)
	record := ipamv1alpha1.AllocationName(claim.Namespace, claim.Name)
	framework.Eventually(t, "the pool to name the IPAllocation", func(ctx context.Context) error {
		err := s.tenant.Delete(ctx, pool)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "IPAllocation default/"+record) {
			return fmt.Errorf("it is refused with %w", err)
		}
		return nil
	})
}
