package transfer

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// A claim that holds the block of the plan is the same, whatever it asked for; one that holds
// another, or has another owner, is not.
func TestDifferentClaim(t *testing.T) {
	t.Parallel()
	there := stage.Bound(gen.Claim("web", gen.OfClass("internal"), gen.Length(28), gen.Unmet(ipamv1alpha1.UnmetRefuse)), "10.0.0.0/28", ipamv1alpha1.PoolRef{Name: "p"})
	there.Status.ClassName = "internal"
	for name, test := range map[string]struct {
		wanted []gen.ClaimOption
		want   string
	}{
		"its block":                   {[]gen.ClaimOption{gen.Address("10.0.0.0/28"), gen.OfClass("internal")}, ""},
		"its block, from its pool":    {[]gen.ClaimOption{gen.Address("10.0.0.0/28"), gen.FromPool("p")}, ""},
		"another block":               {[]gen.ClaimOption{gen.Address("10.0.0.16/28"), gen.OfClass("internal")}, `spec.address is "10.0.0.0/28", not "10.0.0.16/28"`},
		"another pool":                {[]gen.ClaimOption{gen.Address("10.0.0.0/28"), gen.FromPool("q")}, "spec.poolRef"},
		"another class":               {[]gen.ClaimOption{gen.Address("10.0.0.0/28"), gen.OfClass("edge")}, `spec.className is "internal", not "edge"`},
		"a policy that it has not":    {[]gen.ClaimOption{gen.Address("10.0.0.0/28"), gen.OfClass("internal"), gen.Reclaim(ipamv1alpha1.ReclaimRetain)}, "spec.reclaimPolicy"},
		"an owner that it has not":    {[]gen.ClaimOption{gen.Address("10.0.0.0/28"), gen.OfClass("internal"), gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: "Node", Name: "n"})}, "spec.ownerRef"},
		"a single address of a block": {[]gen.ClaimOption{gen.Address("10.0.0.0"), gen.OfClass("internal")}, `not "10.0.0.0/32"`},
	} {
		got := differentClaim(gen.Claim("web", test.wanted...), there)
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: differentClaim = %q; want %q", name, got, test.want)
		}
	}
	own := stage.Bound(gen.Claim("web", gen.FromPoolIn("root:here", "p")), "10.0.0.0/28", ipamv1alpha1.PoolRef{Name: "p"})
	if got := differentClaim(gen.Claim("web", gen.Address("10.0.0.0/28"), gen.FromPoolIn("root:here", "p")), own); got != "" {
		t.Errorf("a claim that names its own workspace, as the plan does, is %q; want no difference", got)
	}
	if got := differentClaim(gen.Claim("web"), gen.Claim("web")); !strings.Contains(got, "holds no block") || strings.Count(got, " web -n default") != 2 {
		t.Errorf("a claim that waits is %q", got)
	}
}

// A server that goes away while an import creates decides how it ends, whatever failed meanwhile.
func TestImport_EndedBy(t *testing.T) {
	t.Parallel()
	for want, ended := range map[int]error{
		exit.Unavailable: &url.Error{Op: "Post", Err: errors.New("connection refused")},
		exit.Aborted:     context.Canceled,
		exit.Conflict:    nil,
	} {
		cancelled := &step{Line: 2, State: stateFailed, Message: "context canceled", code: exit.Aborted}
		if ended == nil {
			cancelled = &step{Line: 2, State: stateFailed, Message: "the address is in use", code: exit.Conflict}
		}
		err := (&planImport{file: "plan.csv"}).failures([]*step{cancelled}, ended)
		if got := exit.CodeOf(err); got != want || !strings.Contains(err.Error(), "plan.csv:2: ") {
			t.Errorf("ended by %v the exit code is %d, and the error %q; want %d, and the line that failed", ended, got, err, want)
		}
	}
}

// A claim from a pool that was not created is not tried; any other claim is.
func TestImport_SkipClaims(t *testing.T) {
	t.Parallel()
	pool := &step{Line: 2, Kind: "pool", Name: "p", State: stateFailed, code: exit.Conflict, object: gen.Pool("p")}
	want := map[*step]string{
		{State: stateNew, object: gen.Claim("a", gen.FromPool("p"))}:             stateFailed,
		{State: stateUnchanged, object: gen.Claim("b", gen.FromPool("p"))}:       stateUnchanged,
		{State: stateNew, object: gen.Claim("c", gen.FromPool("q"))}:             stateNew,
		{State: stateNew, object: gen.Claim("d", gen.FromPoolIn("root:x", "p"))}: stateNew,
		{State: stateNew, object: gen.Claim("e", gen.OfClass("p"))}:              stateNew,
	}
	skipClaims(append(slices.Collect(maps.Keys(want)), pool))
	for s, state := range want {
		if s.State != state || state == stateFailed && (s.code != exit.Conflict || s.Message != "pool p of line 2 is not ready") {
			t.Errorf("claim %s is %s, %q, with the code %d; want it %s", s.object.GetName(), s.State, s.Message, s.code, state)
		}
	}
}

// A pool that exists and has no block is a line that is wrong, with the reason.
func TestImport_PoolWithoutBlock(t *testing.T) {
	t.Parallel()
	overlaps, waits, fine := gen.Pool("lab", gen.CIDR("10.0.0.0/22")), gen.Pool("lab", gen.CIDR("10.0.0.0/22")), gen.Pool("lab", gen.CIDR("10.0.0.0/22"))
	overlaps.Status.Conditions = stage.Allocated(ipamv1alpha1.ReasonOverlap, "it overlaps pool dc")
	fine.Status.AllocatedCIDR = "10.0.0.0/22"
	for want, there := range map[string]*ipamv1alpha1.IPPool{"Overlap: it overlaps pool dc": overlaps, "no answer yet": waits, "": fine} {
		said, err := (&step{}).comparePool(gen.Pool("lab", gen.CIDR("10.0.0.0/22")), []ipamv1alpha1.IPPool{*there})
		if err != nil || want == "" && said != "" || !strings.Contains(said, want) || want != "" && !strings.Contains(said, "kubectl ipam pool") {
			t.Errorf("comparePool = %q, %v; want %q", said, err, want)
		}
	}
}

// What the server refuses decides how an import ends.
func TestImport_RefusedBy(t *testing.T) {
	group, pools := ipamv1alpha1.GroupVersion.WithKind("IPPool").GroupKind(), ipamv1alpha1.Resource("ippools")
	unmetBy := func(code int32, reason ipamv1alpha1.Reason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: "no",
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseType(reason), Message: "no"}}}}}
	}
	for _, test := range []struct {
		kind string
		err  error
		want int
	}{
		{"pool", apierrors.NewForbidden(pools, "a", errors.New("no")), exit.Forbidden},
		{"pool", apierrors.NewInvalid(group, "a", nil), exit.Invalid},
		{"pool", apierrors.NewAlreadyExists(pools, "a"), exit.Conflict},
		{"pool", apierrors.NewServiceUnavailable("later"), exit.Unavailable},
		{"claim", unmetBy(http.StatusForbidden, ipamv1alpha1.ReasonQuotaExceeded), 7},
		{"claim", unmetBy(http.StatusServiceUnavailable, ipamv1alpha1.ReasonNoOfferingPool), 8},
		{"claim", unmetBy(http.StatusConflict, ipamv1alpha1.ReasonAddressInUse), 5},
	} {
		c := stage.Server(t, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return test.err }})
		steps := []*step{{Line: 2, Kind: "pool", State: stateNew, object: gen.Pool("a")}}
		if test.kind == "claim" {
			steps[0] = &step{Line: 2, Kind: "claim", State: stateNew, object: gen.Claim("a")}
		}
		err := (&planImport{Session: stage.New(t).Session, file: "plan.csv"}).preview(t.Context(), c, steps)
		if exit.CodeOf(err) != test.want || test.want != exit.Unavailable && !strings.Contains(err.Error(), "plan.csv:2: ") {
			t.Errorf("a %s refused by %v ends with %d, %v; want %d", test.kind, test.err, exit.CodeOf(err), err, test.want)
		}
	}
}
