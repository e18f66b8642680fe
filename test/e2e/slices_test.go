package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// Every admitted workspace gets a block of its own, whether it existed before the pool or comes later. The slice is a
// plain pool of the workspace, and the platform sees what is held in it.
func TestSlices(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	before, outside := s.member("before"), s.platform.Tenant(t)
	s.offer(t, gen.Slices(24), gen.Backs(s.name), gen.Label("tier", "gold"))
	one := s.slice(before)
	inside(t, s.pool, one)
	if one.Spec.Visibility != ipamv1alpha1.VisibilityConsumer || len(one.Spec.ClassNames) > 0 || one.Labels["tier"] != "" {
		t.Errorf("the slice has something of its pool:\n%+v", one)
	}
	later := s.member("later")
	two := s.slice(later)
	disjointIn(t, s.pool.Spec.CIDR, spaceOf(t, one), spaceOf(t, two))
	waitHeld(t, s.platform, s.pool, size(spaceOf(t, one), spaceOf(t, two)))
	framework.WaitCondition(t, s.platform, s.pool, ipamv1alpha1.ConditionSliced, ipamv1alpha1.ReasonSlicesGiven)
	s.hasNone(outside)

	claim := gen.Claim("web", gen.FromPool(s.name), gen.Length(28))
	framework.Bind(t, before, claim)
	disjointIn(t, ipamv1alpha1.CIDR(one.Status.AllocatedCIDR), blockOf(t, claim))

	err := s.platform.Patch(t.Context(), s.pool, merge(`{"spec": {"slices": {"prefixLength": 25}}}`))
	isRefused(t, err, "spec.slices.prefixLength is immutable while the pool is in use", "change the length of slices")
	isRefused(t, s.platform.Delete(t.Context(), s.pool), "this pool is in use", "delete a pool with slices")
}

// A workspace that deletes its slice gets no other until it binds the export again. A workspace that goes releases
// its slice.
func TestSlices_StayGivenUpUntilTheNextBinding(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.offer(t, gen.Slices(24))
	tenant := s.member("a")
	deleteUnused(t, tenant, s.slice(tenant))
	waitHeld(t, s.platform, s.pool, size())

	// All workspaces are reconciled again, and another one is served after that.
	s.allows(5)
	other := s.slice(s.member("b"))
	waitHeld(t, s.platform, s.pool, size(spaceOf(t, other)))
	s.hasNone(tenant)

	tenant.Unbind(t)
	tenant.Bind(t)
	again := s.slice(tenant)
	waitHeld(t, s.platform, s.pool, size(spaceOf(t, other), spaceOf(t, again)))
	tenant.DeleteWorkspace(t)
	waitHeld(t, s.platform, s.pool, size(spaceOf(t, other)))
}

// When the pool has given as many slices as it may, the pool and the waiting workspace say so. The workspace that has
// waited longest is served when the limit is raised, or when another workspace gives up its slice.
func TestSlices_ServeTheLongestWaiterFirst(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.offer(t, gen.Slices(24), gen.MaxSlices(1))
	first := s.member("first")
	held := s.slice(first)
	second := s.member("second")
	s.waitsFor(second, 1)
	third := s.member("third")
	s.waitsFor(third, 2)
	s.hasNone(second)

	s.allows(2)
	s.slice(second)
	s.waitsFor(third, 1)
	s.hasNone(third)
	deleteUnused(t, first, held)
	s.slice(third)
	framework.WaitCondition(t, s.platform, s.pool, ipamv1alpha1.ConditionSliced, ipamv1alpha1.ReasonSlicesGiven)
	s.hasNone(first)
}

// If there is no room for another slice, the workspace has a pool that waits for it.
func TestSlices_WaitForRoom(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.offer(t, gen.Slices(17))
	first, second := s.member("first"), s.member("second")
	held := s.slice(first)
	s.slice(second)
	third := s.member("third")
	waits := gen.Pool(s.name)
	framework.WaitAllocated(t, third, waits, ipamv1alpha1.ReasonPoolExhausted)
	s.waitsFor(third, 1)
	deleteUnused(t, first, held)
	if got := spaceOf(t, s.slice(third)); got != spaceOf(t, held) {
		t.Errorf("the slice is %s; want %s, which was given back", got, spaceOf(t, held))
	}
	framework.WaitCondition(t, s.platform, s.pool, ipamv1alpha1.ConditionSliced, ipamv1alpha1.ReasonSlicesGiven)
}

// If the workspace already has a pool with the name of its slice, that pool stays as it is. The slice comes when that
// pool has gone.
func TestSlices_WaitForTheirName(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	tenant := s.member("a")
	own := gen.Pool(s.name, gen.CIDR("192.168.0.0/24"))
	framework.Create(t, tenant, own)
	framework.WaitCondition(t, tenant, own, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
	version := own.ResourceVersion

	s.offer(t, gen.Slices(24))
	framework.WaitCondition(t, s.platform, s.pool, ipamv1alpha1.ConditionSliced, ipamv1alpha1.ReasonNameTaken)
	s.isTold(tenant, ipamv1alpha1.ReasonNameTaken)
	if err := tenant.Get(t.Context(), client.ObjectKeyFromObject(own), own); err != nil || own.ResourceVersion != version {
		t.Errorf("the pool that was there was touched (%v):\n%+v", err, own)
	}
	framework.Delete(t, tenant, own)
	framework.Eventually(t, "the slice in place of the pool", func(ctx context.Context) error {
		pool := &ipamv1alpha1.IPPool{}
		if err := tenant.Get(ctx, client.ObjectKey{Name: s.name}, pool); err != nil {
			return err
		}
		if pool.UID == own.UID {
			return fmt.Errorf("the old pool is there")
		}
		return nil
	})
	inside(t, s.pool, s.slice(tenant))
	framework.WaitCondition(t, s.platform, s.pool, ipamv1alpha1.ConditionSliced, ipamv1alpha1.ReasonSlicesGiven)
}

// No user can make a slice: neither with the label nor without it.
func TestSlices_RefuseForgeries(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.offer(t, gen.Slices(24), gen.MaxSlices(1))
	held := s.slice(s.member("first"))
	tenant := s.member("second")
	s.waitsFor(tenant, 1)
	owner := tenant.Owner(t)
	forged := func() *ipamv1alpha1.IPPool {
		pool := gen.Pool(s.name, gen.ChildOf(s.name, 24))
		pool.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: s.platform.Path}
		return pool
	}
	labelled := forged()
	labelled.Labels = map[string]string{ipamv1alpha1.LabelSlice: string(s.pool.UID)}
	const says = "the label ipam.miloapis.com/slice-of is given by the system"
	for who, c := range map[string]client.Client{"a tenant": tenant, "an owner": owner, "the admin of kcp": framework.Admin(t, tenant.Path), "a namesake": namesake(t, tenant, owner)} {
		isRefused(t, c.Create(t.Context(), labelled.DeepCopy()), says, "%s makes a slice", who)
	}
	plain := forged()
	framework.Create(t, tenant, plain)
	framework.WaitAllocated(t, tenant, plain, ipamv1alpha1.ReasonPoolNotFound)
	isRefused(t, owner.Patch(t.Context(), plain, merge(fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, ipamv1alpha1.LabelSlice, s.pool.UID))),
		says, "an owner makes his pool a slice")
	waitHeld(t, s.platform, s.pool, size(spaceOf(t, held)))
}

// If a workspace goes while others hold blocks of its slice, the slice's block drains. The pool says so until the
// block is back.
func TestSlices_DrainWhenTheirWorkspaceGoes(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.offer(t, gen.Slices(24))
	lender, guest := s.member("lender"), s.platform.Tenant(t)
	lent := s.slice(lender)
	framework.WaitCondition(t, lender, lent, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
	framework.Update(t, lender, lent, func(pool *ipamv1alpha1.IPPool) {
		pool.Spec.Visibility, pool.Spec.Consumers = ipamv1alpha1.VisibilityShared, []ipamv1alpha1.Consumer{ipamv1alpha1.Consumer(guest.Path)}
	})
	claim := gen.Claim("web", gen.FromPoolIn(lender.Path, s.name), gen.Length(28))
	framework.Bind(t, guest, claim)

	lender.Unbind(t)
	framework.WaitCondition(t, s.platform, s.pool, ipamv1alpha1.ConditionDraining, ipamv1alpha1.ReasonBlockInUse)
	waitHeld(t, s.platform, s.pool, size(spaceOf(t, lent)))
	framework.Delete(t, guest, claim)
	waitHeld(t, s.platform, s.pool, size())
	framework.WaitWhile(t, s.platform, s.pool, "it drains still", func(pool *ipamv1alpha1.IPPool) bool {
		return meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionDraining) != nil
	})
}

// sliced is a pool with slices, and the workspaces that it admits.
type sliced struct {
	*testing.T
	platform *framework.Platform
	name     string
	top      string
	pool     *ipamv1alpha1.IPPool
}

func newSliced(t *testing.T) *sliced {
	t.Helper()
	return slicedOn(t, framework.SharedPlatform(t))
}

func slicedOn(t *testing.T, platform *framework.Platform) *sliced {
	t.Helper()
	name := framework.Name(t)
	return &sliced{T: t, platform: platform, name: name, top: "root:" + name}
}

// offer makes the pool only for the members, because other tests use this platform, too.
func (s *sliced) offer(t *testing.T, options ...gen.PoolOption) {
	t.Helper()
	options = append(options, gen.CIDR(s.platform.CIDR(t)), gen.Visible(ipamv1alpha1.VisibilityPlatform),
		gen.Consumers{ipamv1alpha1.Consumer(s.top + ":*")})
	s.pool = gen.Pool(s.name, options...)
	framework.Allocate(t, s.platform, s.pool)
}

// allows sets how many slices the pool gives at most.
func (s *sliced) allows(most int) {
	s.Helper()
	must.Do(s, s.platform.Patch(s.Context(), s.pool, merge(fmt.Sprintf(`{"spec": {"slices": {"maxSlices": %d}}}`, most))))
}

func (s *sliced) member(name string) *framework.Tenant {
	s.Helper()
	return s.platform.TenantAt(s.T, s.top+":"+name)
}

// slice waits for the slice of a member.
func (s *sliced) slice(tenant *framework.Tenant) *ipamv1alpha1.IPPool {
	s.Helper()
	pool := gen.Pool(s.name)
	framework.WaitAllocated(s.T, tenant, pool, ipamv1alpha1.ReasonAllocationSucceeded)
	return pool
}

func (s *sliced) hasNone(tenant *framework.Tenant) {
	s.Helper()
	err := tenant.Get(s.Context(), client.ObjectKey{Name: s.name}, &ipamv1alpha1.IPPool{})
	if !apierrors.IsNotFound(err) {
		s.Errorf("%s has a slice (%v)", tenant.Path, err)
	}
}

// waitsFor waits until the pool says that total workspaces wait, and until the tenant is told, too.
func (s *sliced) waitsFor(tenant *framework.Tenant, total int) {
	s.Helper()
	says := fmt.Sprintf("workspaces that wait for one: %d", total)
	framework.WaitFor(s.T, s.platform, s.pool, func(pool *ipamv1alpha1.IPPool) error {
		said := meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionSliced)
		if said == nil || said.Reason != string(ipamv1alpha1.ReasonPoolFull) || !strings.Contains(said.Message, says) {
			return fmt.Errorf("it does not say %q", says)
		}
		return nil
	})
	s.isTold(tenant, ipamv1alpha1.ReasonPoolFull)
}

// isTold waits for an event on the tenant's binding.
func (s *sliced) isTold(tenant *framework.Tenant, reason ipamv1alpha1.Reason) {
	s.Helper()
	owner, binding := tenant.Owner(s.T), &apisv1alpha2.APIBinding{}
	binding.Name = workspaces.BindingName
	framework.Read(s, owner, binding)
	waitEvent(s.T, owner, binding, reason)
}
