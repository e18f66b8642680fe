package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The object that CREATE returns has the final status, however the claim asks. The claim is not written again: only
// its record follows.
func TestCreate(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.DefaultLength(28))
	s.pool(s.cidr)
	s.ownPool(gen.CIDR("192.0.2.0/24"), gen.Label("site", "here"))
	theirs := &ipamv1alpha1.PoolRef{Name: s.name, ProjectRef: &ipamv1alpha1.ProjectRef{Name: s.platform.Path}}

	generated := gen.Claim("", gen.OfClass(s.name))
	generated.GenerateName = "some-"
	for _, row := range []struct {
		name   string
		claim  *ipamv1alpha1.IPClaim
		pool   *ipamv1alpha1.PoolRef
		class  string
		exact  string
		create func(context.Context, client.Writer, *ipamv1alpha1.IPClaim) error
	}{
		{"by class", gen.Claim("class", gen.OfClass(s.name)), theirs, s.name, "", create},
		{"from a pool", gen.Claim("pool", gen.FromPool("own"), gen.Length(30)), &ipamv1alpha1.PoolRef{Name: "own"}, "", "", create},
		{"from a selected pool", gen.Claim("selector", gen.Selecting("site", "here"), gen.Length(30)), &ipamv1alpha1.PoolRef{Name: "own"}, "", "", create},
		{"exactly one address", gen.Claim("address", gen.FromPool("own"), gen.Address("192.0.2.77")), &ipamv1alpha1.PoolRef{Name: "own"}, "", "192.0.2.77/32", create},
		{"with a generated name", generated, theirs, s.name, "", create},
		{"applied by the server", gen.Claim("applied", gen.OfClass(s.name)), theirs, s.name, "", apply},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			claim := answered(t, s.tenant, row.claim, row.create)
			status := claim.Status
			block := blockOf(t, claim)
			if row.exact != "" && block.String() != row.exact {
				t.Errorf("the claim has %s, want %s", block, row.exact)
			}
			want := ipamv1alpha1.IPClaimStatus{
				Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: block.String(), ClassName: row.class, IPFamily: ipamv1alpha1.IPv4,
				PoolRef:            row.pool,
				Requested:          fmt.Sprintf("/%d", block.Bits()),
				BoundAllocationRef: &ipamv1alpha1.LocalRef{Name: ipamv1alpha1.AllocationName(claim.Namespace, claim.Name)},
				ObservedGeneration: 1,
			}
			if block.IsSingleIP() {
				want.Address, want.Requested = block.Addr().String(), row.claim.Spec.Address
			}
			showsBound(t, claim, want)
			version := claim.ResourceVersion
			framework.WaitBound(t, s.tenant, claim)
			id, record := claim.Status.AllocationID, recordOf(t, s.tenant, claim)
			if record.Status.AllocatedCIDR != block.String() || id == "" || record.AllocationID() != id {
				t.Errorf("recorded is %s with the allocation ID %q, want %s and %q", record.Status.AllocatedCIDR, record.AllocationID(), block, id)
			}
			if diff := cmp.Diff(status, claim.Status); diff != "" || claim.ResourceVersion != version {
				t.Errorf("the claim was written after its CREATE (-answer +now):\n%s", diff)
			}
		})
	}
}

func create(ctx context.Context, c client.Writer, claim *ipamv1alpha1.IPClaim) error {
	return c.Create(ctx, claim)
}

// answered creates a claim, and returns it as CREATE returned it, with its answer. On a busy machine a CREATE may get
// no answer: then the claim is deleted, and created again.
func answered(t *testing.T, c client.WithWatch, claim *ipamv1alpha1.IPClaim, create func(context.Context, client.Writer, *ipamv1alpha1.IPClaim) error) *ipamv1alpha1.IPClaim {
	t.Helper()
	for range 5 {
		try := claim.DeepCopy()
		if err := create(t.Context(), c, try); err != nil {
			t.Fatalf("create claim %s: %v", claim.Name, err)
		}
		if meta.FindStatusCondition(try.Status.Conditions, ipamv1alpha1.ConditionAllocated) != nil {
			return try
		}
		if err := c.Delete(t.Context(), try); client.IgnoreNotFound(err) != nil { // a dry run stores no claim
			t.Fatalf("Delete: %v", err)
		}
		framework.WaitGone(t, c, try.DeepCopy())
		waitUnrecorded(t, c, try.Name)
	}
	t.Fatalf("five CREATEs of claim %s returned no status", claim.Name)
	return nil
}

// A dry run shows the answer that a claim would get, and takes nothing.
func TestCreate_TakesNothingInADryRun(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(s.cidr)
	claim := answered(t, s.tenant, gen.Claim("web", gen.OfClass(s.name), gen.Length(28)), func(ctx context.Context, c client.Writer, claim *ipamv1alpha1.IPClaim) error {
		return c.Create(ctx, claim, client.DryRunAll)
	})
	disjointIn(t, s.cidr, blockOf(t, claim))
	if err := s.tenant.Get(t.Context(), client.ObjectKeyFromObject(claim), claim.DeepCopy()); !apierrors.IsNotFound(err) {
		t.Errorf("the claim of a dry run: %v; want NotFound", err)
	}
	real := s.holds("real", gen.Length(28))
	if blockOf(t, real) != blockOf(t, claim) {
		t.Errorf("the dry run shows %s, and the next claim gets %s; want the same", blockOf(t, claim), blockOf(t, real))
	}
	waitHeld(t, s.platform, pool, size(blockOf(t, real)))
}

// A claim that cannot be met is stored with the reason, and binds when the cause is gone.
func TestCreate_StoresAClaimThatCannotBeMet(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	s.pool(part(s.cidr, 28))
	first := answered(t, s.tenant, gen.Claim("first", gen.OfClass(s.name), gen.Length(28)), create)
	second := answered(t, s.tenant, gen.Claim("second", gen.OfClass(s.name), gen.Length(28)), create)
	if says := meta.FindStatusCondition(second.Status.Conditions, ipamv1alpha1.ConditionAllocated); says.Reason != string(ipamv1alpha1.ReasonPoolExhausted) {
		t.Fatalf("CREATE is answered with reason %s; want %s", says.Reason, ipamv1alpha1.ReasonPoolExhausted)
	}
	showsRefusal(t, second, s.name, false)
	framework.WaitBound(t, s.tenant, first)
	framework.Delete(t, s.tenant, first)
	framework.WaitBound(t, s.tenant, second)
	if got := blockOf(t, second); got != blockOf(t, first) {
		t.Errorf("the claim that waited has %s; want %s, which was released", got, blockOf(t, first))
	}
}

// With the policy Refuse, of the claim or else of its class, a claim that cannot be met is not stored, and takes
// nothing. The error has the reason.
func TestCreate_RefusesByPolicyWhatCannotBeMet(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.MaxPerConsumer("48"), gen.Unmet(ipamv1alpha1.UnmetRefuse))
	pool := s.pool(part(s.cidr, 26))
	held := s.holds("held", gen.Length(28))
	neighbour, half := s.platform.Tenant(t), gen.Claim("half", gen.OfClass(s.name), gen.Length(27))
	framework.Bind(t, neighbour, half)
	s.ownPool(gen.CIDR("192.0.2.0/24"), gen.Reserves(1, 0, 32))
	scoped := s.name + "-scoped"
	offer(t, s.platform, scoped, s.platform.CIDR(t), gen.UniqueWithin("network", "location"), gen.DefaultLength(32))
	refuse, wait := gen.Unmet(ipamv1alpha1.UnmetRefuse), gen.Unmet(ipamv1alpha1.UnmetWait)
	for _, row := range []struct {
		claim  *ipamv1alpha1.IPClaim
		code   int32
		reason ipamv1alpha1.Reason
		cause  metav1.CauseType // a further cause, besides the reason
	}{
		{gen.Claim("large", gen.OfClass(s.name), gen.Length(27)), http.StatusInsufficientStorage, ipamv1alpha1.ReasonPoolExhausted, "Exhausted"},
		{gen.Claim("over", gen.OfClass(s.name), gen.Length(26)), http.StatusForbidden, ipamv1alpha1.ReasonQuotaExceeded, ""},
		{gen.Claim("taken", gen.OfClass(s.name), gen.Address(held.Status.AllocatedCIDR)), http.StatusConflict, ipamv1alpha1.ReasonAddressInUse, ""},
		{gen.Claim("reserved", gen.FromPool("own"), gen.Address("192.0.2.0"), refuse), http.StatusUnprocessableEntity, ipamv1alpha1.ReasonAddressReserved, ""},
		{gen.Claim("classless", gen.OfClass("none"), refuse), http.StatusUnprocessableEntity, ipamv1alpha1.ReasonClassNotFound, ""},
		{gen.Claim("poolless", gen.FromPool("none"), gen.Length(28), refuse), http.StatusUnprocessableEntity, ipamv1alpha1.ReasonPoolNotFound, ""},
		{gen.Claim("roleless", gen.OfClass(scoped), refuse), http.StatusUnprocessableEntity, ipamv1alpha1.ReasonScopeRolesMissing, ""},
	} {
		t.Run(row.claim.Name, func(t *testing.T) {
			framework.Eventually(t, "the refusal", func(ctx context.Context) error {
				err := s.tenant.Create(ctx, row.claim.DeepCopy())
				if err == nil {
					framework.Delete(t, s.tenant, row.claim.DeepCopy())
					return errors.New("the claim was stored: nobody has answered in time")
				}
				if causes := statusOf(err).Details; row.reason == ipamv1alpha1.ReasonScopeRolesMissing && (causes == nil || !slices.ContainsFunc(causes.Causes,
					func(c metav1.StatusCause) bool { return c.Field == "spec.scope.location" })) {
					return fmt.Errorf("no cause names the field of the role location: %w", err)
				}
				return refusedWith(err, row.code, row.reason, row.cause)
			})
			if err := s.tenant.Get(t.Context(), client.ObjectKeyFromObject(row.claim), row.claim.DeepCopy()); !apierrors.IsNotFound(err) {
				t.Errorf("the claim that was refused: %v; want NotFound", err)
			}
		})
	}
	nowhere := gen.Claim("nowhere", gen.Namespace("missing"), gen.OfClass("none"), refuse)
	err := s.tenant.Create(t.Context(), nowhere)
	if details := statusOf(err).Details; !apierrors.IsNotFound(err) || details == nil || details.Kind != "namespaces" || details.Name != "missing" {
		t.Errorf("a claim that is refused, in a namespace that is missing: %v (%+v); want the 404 of the namespace", err, details)
	}
	patient := gen.Claim("patient", gen.OfClass(s.name), gen.Length(27), wait)
	framework.Create(t, s.tenant, patient)
	framework.WaitAllocated(t, s.tenant, patient, ipamv1alpha1.ReasonPoolExhausted)
	waitHeld(t, s.platform, pool, size(blockOf(t, held), blockOf(t, half)))
}

// statusOf returns the status of an error of a server.
func statusOf(err error) metav1.Status {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.ErrStatus
	}
	return metav1.Status{}
}

// refusedWith returns an error unless a CREATE has failed with this code and reason. The answer must not have a time
// after which clients would retry by themselves.
func refusedWith(err error, code int32, reason ipamv1alpha1.Reason, beside metav1.CauseType) error {
	details := statusOf(err).Details
	if details == nil {
		return fmt.Errorf("it is %T, without details: %w", err, err)
	}
	has := func(cause metav1.CauseType) bool {
		return slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool { return c.Type == cause })
	}
	if statusOf(err).Code != code || !has(metav1.CauseType(reason)) || beside != "" && !has(beside) || details.RetryAfterSeconds != 0 {
		return fmt.Errorf("want code %d and cause %s; it is %+v", code, reason, statusOf(err))
	}
	return nil
}
