package claim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

// A claim is shown with its block and scope, or with the reason for which it has none. A list has a column for scopes
// if any claim has one.
func TestClaimShow_HasBlockOrReason(t *testing.T) {
	web := stage.Bound(gen.Claim("web", gen.OfClass("internal"), gen.Length(28), stage.HourAgo), "10.64.0.0/28", stage.OfPlatform("internal-a"))
	web.Annotations = map[string]string{ipamv1alpha1.AnnotationDescription: "the shop"}
	full := stage.Waiting(gen.Claim("batch", gen.OfClass("internal"), gen.Length(24), stage.HourAgo),
		ipamv1alpha1.ReasonPoolExhausted, `pool "lab": no free /24: the largest free block is a /26`)
	gone := stage.Bound(gen.Claim("orphan", gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: "Service", Namespace: "default", Name: "web"})), "10.64.0.16/28", stage.OfPlatform("internal-a"))
	eth := stage.Bound(gen.Claim("eth0", gen.OfClass("endpoint"), gen.Within("network", "vpc-1", "location", "ams"), stage.HourAgo), "2001:db8::/96", ipamv1alpha1.PoolRef{Name: "subnet-1"})
	vpc := stage.Bound(gen.Claim("vpc-1", gen.OfClass("vpc"), gen.Within("network", "vpc-1"), gen.ForRange(), stage.HourAgo), "2001:db8::/48", ipamv1alpha1.PoolRef{Name: "vpc-1"})
	for _, claim := range []*ipamv1alpha1.IPClaim{web, full, gone, eth, vpc} {
		s := stage.New(t)
		describeClaim(s.Session, claim, nil)
		stage.Golden(t, "claim_show_"+claim.Name, s.Printed.String())
	}
	s := stage.New(t)
	list := &ipamv1alpha1.IPClaimList{Items: []ipamv1alpha1.IPClaim{*eth, *vpc, *gen.Claim("flat", stage.HourAgo)}}
	must.Do(t, (&output.Printer{Format: output.Table}).Print(s.Out, list, s.Now))
	stage.Golden(t, "claim_list_scope", s.Printed.String())
}

// With --retained, a retained block is released, even if the server says that the record went together with its claim.
// The block of an existing claim is refused: the message has the command for that, with its namespace.
func TestRelease_ReleasesOnlyRetainedBlocksIfAsked(t *testing.T) {
	record, key := kept("web", 0), client.ObjectKey{Namespace: "default", Name: "web"}
	refused := func(code func() error) interceptor.Funcs {
		return interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return code() }}
	}
	for name, tt := range map[string]struct {
		server interceptor.Funcs
		code   int
		says   string
	}{
		"retained": {interceptor.Funcs{}, exit.OK, "is released: 10.64.0.0/28"},
		"gone with its claim": {refused(func() error { return apierrors.NewNotFound(ipamv1alpha1.Resource("ipallocations"), record.Name) }),
			exit.OK, "is released: 10.64.0.0/28"},
		"held": {refused(func() error {
			return apierrors.NewInvalid(ipamv1alpha1.GroupVersion.WithKind("IPAllocation").GroupKind(), record.Name, nil)
		}), exit.Conflict, "claim release web -n default gives it back"},
	} {
		s := stage.New(t)
		err := (&removal{Session: s.Session}).record(t.Context(), stage.Server(t, tt.server, record), key)
		if exit.CodeOf(err) != tt.code || !strings.Contains(s.Said.String()+exit.HintOf(err), tt.says) {
			t.Errorf("%s: %v, %q and the hint %q; want to end with %d and %q", name, err, s.Said, exit.HintOf(err), tt.code, tt.says)
		}
	}
}

// claimed returns the claim that a command line creates.
func claimed(t *testing.T, flags ...string) (*ipamv1alpha1.IPClaim, error) {
	t.Helper()
	o := &creation{}
	o.Session = stage.New(t).Session
	cmd := &cobra.Command{}
	o.addSpecFlags(cmd)
	o.AddFlags(cmd)
	if err := cmd.ParseFlags(flags); err != nil {
		return nil, err
	}
	return &o.claim, o.complete([]string{"x"})
}

// Each --scope adds an object to the scope of the claim. With --target range, the claim holds a range.
func TestCreate_SetsScopeAndTarget(t *testing.T) {
	claim, err := claimed(t, "--class", "vpc", "--scope", "network=vpc-1", "--scope", "location=Site.example.com/ams", "--target", "Range")
	want := ipamv1alpha1.Scope{"network": {Kind: "Network", Name: "vpc-1"}, "location": {APIGroup: "example.com", Kind: "Site", Name: "ams"}}
	if err != nil || len(claim.Spec.Scope) != 2 || claim.Spec.Scope["network"] != want["network"] || claim.Spec.Scope["location"] != want["location"] ||
		claim.Spec.Target != ipamv1alpha1.TargetScopeRange {
		t.Errorf("the claim is %+v, %v; want the scope %v and a range", claim, err, want)
	}
	if claim, err := claimed(t, "--target", "block"); err != nil || claim.Spec.Target != "" || claim.Spec.Scope != nil {
		t.Errorf("the claim is %+v, %v; want no scope, and a block", claim, err)
	}
	for _, flags := range [][]string{{"--scope", "vpc-1"}, {"--scope", "network="}, {"--scope", "network=a", "--scope", "network=b"}, {"--target", "all"}} {
		if _, err := claimed(t, flags...); err == nil || flags[0] == "--scope" && !strings.Contains(err.Error(), "such as network=vpc-1") {
			t.Errorf("%v: %v, want an error with an example", flags, err)
		}
	}
}

// If a claim lacks roles, the output says which roles its class requires, and which ones the claim has.
func TestWhy_NamesRequiredRoles(t *testing.T) {
	class := gen.Class("endpoint", gen.DefaultLength(32))
	class.Status.RequiredScopeRoles = []string{"location", "network"}
	claim := stage.Waiting(gen.Claim("eth0", gen.OfClass("endpoint"), gen.Within("network", "vpc-1"), stage.HourAgo), ipamv1alpha1.ReasonScopeRolesMissing,
		`class "endpoint" requires an object for each of its roles, and spec.scope names none for location: add it in a new claim`)
	s := stage.New(t)
	must.Do(t, (question{claim: claim, class: class}).explain(s.Session))
	stage.Golden(t, "why_scope", s.Printed.String())
}

// kept returns the allocation that is retained from a claim of this name. It expires after this time.
func kept(claim string, left time.Duration) *ipamv1alpha1.IPAllocation {
	a := gen.Allocation(claim, "internal-a", "10.64.0.0/28", gen.ByClass("internal"), gen.Retained(), stage.HourAgo)
	a.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: claim + "/former"}
	if left != 0 {
		a.Status.Expires = &metav1.Time{Time: stage.Noon.Add(left)}
	}
	return a
}

// A retained block is shown with the time of its release: in a list, for a claim that is gone, and beside a claim that
// waits for the block.
func TestRetained_IsShownWithItsEnd(t *testing.T) {
	list := &ipamv1alpha1.IPAllocationList{Items: []ipamv1alpha1.IPAllocation{*kept("web", 36*time.Hour), *kept("db", 0)}}
	s := stage.New(t)
	out := output.Printer{Format: output.Wide}
	must.Do(t, out.Print(s.Out, list, s.Now))
	stage.Golden(t, "claim_list_retained", s.Printed.String())

	s = stage.New(t)
	describeRetained(s.Session, "web", kept("web", 36*time.Hour))
	stage.Golden(t, "claim_show_retained", s.Printed.String())

	s = stage.New(t)
	web := stage.Waiting(gen.Claim("web", gen.OfClass("internal"), gen.Length(28), stage.HourAgo), ipamv1alpha1.ReasonAllocationRetained,
		"IPAllocation alloc-1 keeps 10.64.0.0/28 from a former claim of this name")
	describeClaim(s.Session, web, kept("web", -time.Second))
	stage.Golden(t, "claim_show_waits_for_retained", s.Printed.String())

	s = stage.New(t)
	must.Do(t, (question{claim: web, kept: kept("web", 36*time.Hour)}).explain(s.Session))
	stage.Golden(t, "why_retained", s.Printed.String())
}

// The output begins with the answer of the controller. Then come the pools that the claim could use.
func TestWhy_ShowsTheAnswerThenThePools(t *testing.T) {
	class := gen.Class("internal", gen.DefaultLength(28))
	class.Status.OfferingPools = 1
	claim := stage.Waiting(gen.Claim("web", gen.OfClass("internal"), gen.Length(24)), ipamv1alpha1.ReasonPoolExhausted,
		`pool "full": no free /24; pool "small": no free /24: the largest free block is a /26`)
	backs := gen.Backs("internal")
	pools := []ipamv1alpha1.IPPool{
		*stage.Ready(gen.Pool("full", backs), "10.0.0.0/24", ipamv1alpha1.IPv4, 100, 0),
		*stage.Ready(gen.Pool("small", backs), "10.0.1.0/24", ipamv1alpha1.IPv4, 50, 26),
		*stage.Ready(gen.Pool("narrow", backs, gen.Lengths{Min: 26, Max: 28}), "10.0.2.0/24", ipamv1alpha1.IPv4, 0, 26),
		*stage.Ready(gen.Pool("other", backs), "2001:db8::/64", ipamv1alpha1.IPv6, 0, 64),
		*stage.Ready(gen.Pool("roomy", backs), "10.1.0.0/16", ipamv1alpha1.IPv4, 60, 20),
		*gen.Pool("new", backs, gen.CIDR("10.2.0.0/16")),
	}
	pools[0].Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Cooling: "16"}
	pools[0].Status.NextRelease = &metav1.Time{Time: stage.Noon.Add(12 * time.Second)}
	q := question{claim: claim, class: class, pools: (&session.View{}).Visible(pools, nil)}
	s := stage.New(t)
	must.Do(t, q.explain(s.Session))
	stage.Golden(t, "why", s.Printed.String())

	s = stage.New(t)
	alone := question{claim: stage.Waiting(gen.Claim("db", gen.OfClass("nobodys")), ipamv1alpha1.ReasonClassNotFound,
		`there is no class "nobodys"; name one that exists, or ask the platform to create it`)}
	must.Do(t, alone.explain(s.Session))
	stage.Golden(t, "why_no_class", s.Printed.String())
}

// A holder of this workspace is named with its scope, even if the block is in a pool of the platform, which is not
// listed here.
func TestWhy_NamesTheHolderInAPoolOfThePlatform(t *testing.T) {
	web := gen.Allocation("web", "internal-a", "198.51.100.16/28")
	web.Spec.PoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:ipam"}
	web.Spec.Scope = ipamv1alpha1.Scope{"network": {Kind: "Network", Name: "vpc-1"}}
	seen := (&session.View{}).Visible(nil, []ipamv1alpha1.IPAllocation{*web})
	for address, want := range map[string]string{
		"198.51.100.20": "[claim default/web of this workspace holds 198.51.100.16/28 of pool internal-a of root:ipam for network=vpc-1]", "198.51.100.40": "[]",
	} {
		q := question{claim: gen.Claim("a", gen.OfClass("internal"), gen.Address(address))}
		if got := fmt.Sprint(q.holders(seen[0])); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// If a claim asks for an address in use, the output names the holder in the same workspace. This may be a child pool.
func TestWhy_NamesTheHolderOfAnAddress(t *testing.T) {
	parent := *stage.Ready(gen.Pool("lab"), "198.51.100.0/24", ipamv1alpha1.IPv4, 50, 25)
	child := *stage.Ready(gen.Pool("child", gen.ChildOf("lab", 28)), "198.51.100.0/28", ipamv1alpha1.IPv4, 0, 28)
	web := *gen.Allocation("web", "lab", "198.51.100.16/28")
	foreign := *gen.Allocation("other", "lab", "198.51.100.32/28")
	foreign.Spec.PoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:net"}
	for address, want := range map[string]string{
		"198.51.100.5":  "pool child holds 198.51.100.0/28",
		"198.51.100.20": "claim default/web holds 198.51.100.16/28",
		"198.51.100.40": "",
	} {
		pools := []ipamv1alpha1.IPPool{parent, child}
		claim := gen.Claim("a", gen.FromPool("lab"), gen.Address(address))
		seen := (&session.View{}).Visible(pools, []ipamv1alpha1.IPAllocation{web, foreign})
		if got := (question{claim: claim}).says(seen[0]); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

// If a claim gets a block in a class that makes ranges, the user may have meant the range. A hint says how to get it.
func TestCreate_HintsAtAForgottenTarget(t *testing.T) {
	t.Parallel()
	c := stage.Server(t, interceptor.Funcs{}, gen.Class("vpc", gen.PoolPer("project", "network"), gen.DefaultLength(48)), gen.Class("flat"))
	for class, want := range map[string]string{"vpc": "kubectl ipam claim release red -n default, and create it again with --target range", "flat": "", "gone": "", "": ""} {
		claim := gen.Claim("red", gen.Within("network", "red"))
		claim.Status.ClassName = class
		if hint := rangeMeant(t.Context(), c, claim); !strings.Contains(hint, want) || want == "" && hint != "" {
			t.Errorf("the hint for a block by class %q is %q; want %q", class, hint, want)
		}
	}
}
