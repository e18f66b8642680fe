package ipamclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

func denied(code int32, causes ...metav1.StatusCause) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Message: "denied", Details: &metav1.StatusDetails{Causes: causes},
	}}
}

func TestReasonOf(t *testing.T) {
	t.Parallel()
	full := metav1.StatusCause{Type: metav1.CauseType(ipamv1alpha1.ReasonPoolExhausted), Message: "no pool has a /24"}
	for name, test := range map[string]struct {
		err  error
		want ipamv1alpha1.Reason
	}{
		"nothing":                      {nil, ""},
		"a fault":                      {errors.New("EOF"), ""},
		"a refused CREATE":             {denied(http.StatusInsufficientStorage, full), ipamv1alpha1.ReasonPoolExhausted},
		"the cause after another one":  {denied(http.StatusInsufficientStorage, metav1.StatusCause{Type: "Exhausted"}, full), ipamv1alpha1.ReasonPoolExhausted},
		"a refusal by validation":      {denied(http.StatusUnprocessableEntity, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid}), ""},
		"a refusal without details":    {&apierrors.StatusError{}, ""},
		"a claim that waits":           {&UnmetError{Reason: ipamv1alpha1.ReasonNoOfferingPool, Stored: true}, ipamv1alpha1.ReasonNoOfferingPool},
		"a claim without an answer":    {&UnmetError{Stored: true}, ""},
		"a claim that waits, wrapped":  {fmt.Errorf("node 7: %w", &UnmetError{Reason: ipamv1alpha1.ReasonQuotaExceeded}), ipamv1alpha1.ReasonQuotaExceeded},
		"a name that another one uses": {&ConflictError{Claim: gen.Claim("c")}, ""},
	} {
		if got := ReasonOf(test.err); got != test.want {
			t.Errorf("%s: ReasonOf(%v) = %q; want %q", name, test.err, got, test.want)
		}
	}
}

// A refused CREATE is an answer; the error of the server stays in reach.
func TestRefusedBy(t *testing.T) {
	t.Parallel()
	err := refusedBy(gen.Claim("c"), denied(http.StatusConflict, metav1.StatusCause{
		Type: metav1.CauseType(ipamv1alpha1.ReasonAddressInUse), Message: "10.0.0.7 is taken",
	}))
	unmet, ok := errors.AsType[*UnmetError](err)
	if !ok || unmet.Stored || unmet.Message != "10.0.0.7 is taken" || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		t.Errorf("refusedBy gives %#v; want an UnmetError of a claim that is not stored, with the server's error", err)
	}
	if want := "claim default/c is not created: AddressInUse: 10.0.0.7 is taken"; err.Error() != want {
		t.Errorf("it says %q; want %q", err, want)
	}
	if err := refusedBy(gen.Claim("c"), errors.New("EOF")); ReasonOf(err) != "" || !strings.Contains(err.Error(), "create claim default/c: EOF") {
		t.Errorf("a fault becomes %q", err)
	}
}

// After the end of a wait, the error says why the claim waits, and what ended the wait.
func TestUnmetError_SaysWhatEndedTheWait(t *testing.T) {
	t.Parallel()
	unmet := unmetBy(gen.Claim("c"))
	unmet.Err = context.DeadlineExceeded
	if want := "claim default/c has no block: there is no answer yet (context deadline exceeded)"; unmet.Error() != want {
		t.Errorf("it says %q; want %q", unmet, want)
	}
	if !errors.Is(unmet, context.DeadlineExceeded) {
		t.Errorf("%v is not a context.DeadlineExceeded", unmet)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	spec := func(options ...gen.ClaimOption) ipamv1alpha1.IPClaimSpec { return gen.Claim("c", options...).Spec }
	for name, test := range map[string]struct {
		wanted, there ipamv1alpha1.IPClaimSpec
		want          []string
	}{
		"the same":                       {spec(gen.OfClass("a")), spec(gen.OfClass("a")), nil},
		"another length":                 {spec(gen.Length(27)), spec(gen.Length(28)), []string{"spec.prefixLength is 28, not 27"}},
		"a class instead of a pool":      {spec(gen.OfClass("a")), spec(gen.FromPool("p")), []string{`spec.className is missing (wanted: "a")`, `spec.poolRef is {"name":"p"} (not asked for)`}},
		"a policy that is not asked for": {spec(), spec(gen.Reclaim(ipamv1alpha1.ReclaimRetain)), nil},
		"a policy that is asked for":     {spec(gen.Reclaim(ipamv1alpha1.ReclaimRetain)), spec(), []string{`spec.reclaimPolicy is missing (wanted: "Retain")`}},
		"another network":                {spec(gen.Within("network", "a")), spec(gen.Within("network", "b")), []string{`spec.scope is {"network":{"apiGroup":"networking.example.com","kind":"Network","name":"b"}}, not {"network":{"apiGroup":"networking.example.com","kind":"Network","name":"a"}}`}},
		"a range instead of a block":     {spec(), spec(gen.ForRange()), []string{`spec.target is "ScopeRange" (not asked for)`}},
		"a block, in words or without": {func() ipamv1alpha1.IPClaimSpec {
			s := spec()
			s.Target, s.Scope = ipamv1alpha1.TargetBlock, ipamv1alpha1.Scope{}
			return s
		}(), spec(), nil},
		"to wait, or not to":                {spec(gen.Unmet(ipamv1alpha1.UnmetRefuse)), spec(), []string{`spec.unmetPolicy is missing (wanted: "Refuse")`}},
		"an owner of another UID, the same": {spec(gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: "Node", Name: "n"})), spec(gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: "Node", Name: "n"})), nil},
	} {
		differs, err := differences(test.wanted, &ipamv1alpha1.IPClaim{Spec: test.there})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, d := range differs {
			got = append(got, d.String())
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: the differences are wrong (-want +got):\n%s", name, diff)
		}
	}
}

// The unmetPolicy of a bound claim does not matter.
func TestDifferences_IgnoresTheUnmetPolicyOfABoundClaim(t *testing.T) {
	t.Parallel()
	there := gen.Claim("c", gen.OfClass("a"))
	there.Status.AllocatedCIDR = "10.0.0.0/28"
	there.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionTrue}}
	differs, err := differences(gen.Claim("c", gen.OfClass("a"), gen.Unmet(ipamv1alpha1.UnmetRefuse)).Spec, there)
	if err != nil || len(differs) > 0 {
		t.Errorf("a bound claim differs in %v, %v; want nothing", differs, err)
	}
}

// A block counts while the condition Allocated is true. If its text is no prefix, AllocationOf returns an error.
func TestAllocationOf(t *testing.T) {
	t.Parallel()
	claim := func(cidr string, status metav1.ConditionStatus) *ipamv1alpha1.IPClaim {
		c := gen.Claim("c", gen.Reclaim(ipamv1alpha1.ReclaimRetain))
		c.Status.AllocatedCIDR, c.Status.ClassName = cidr, "internal"
		c.Status.PoolRef = &ipamv1alpha1.PoolRef{Name: "p", ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:ipam"}}
		c.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: status}}
		return c
	}
	a, ok, err := AllocationOf(claim("2001:db8::/64", metav1.ConditionTrue))
	if err != nil || !ok || a.Prefix.String() != "2001:db8::/64" || a.Pool.ProjectRef.Name != "root:ipam" || a.ClassName != "internal" || a.ReclaimPolicy != ipamv1alpha1.ReclaimRetain {
		t.Errorf("AllocationOf = %+v, %t, %v", a, ok, err)
	}
	if a, ok, err := AllocationOf(claim("10.0.0.0/28", metav1.ConditionFalse)); ok || err != nil {
		t.Errorf("a block that the condition denies is %+v, %v", a, err)
	}
	if a, ok, err := AllocationOf(claim("10.0.0.0", metav1.ConditionTrue)); ok || err == nil {
		t.Errorf("what is no prefix is %+v without an error", a)
	}
}

// The 404 of a workspace that does not serve the API does not say that a claim is gone.
func TestMissing(t *testing.T) {
	t.Parallel()
	claims := ipamv1alpha1.Resource("ipclaims")
	if err := apierrors.NewNotFound(claims, "c"); !missing(err) {
		t.Errorf("missing(%v) = false", err)
	}
	if err := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", claims, "c", "404 page not found", 0, true); missing(err) {
		t.Errorf("missing(%v) = true, and nothing is served there", err)
	}
}
