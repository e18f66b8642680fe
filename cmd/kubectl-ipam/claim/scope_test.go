package claim

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// claimed returns the claim that a command line asks for.
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

// A claim has an object for each --scope, and holds a range with --target range.
func TestCreate_Scope(t *testing.T) {
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

// The scope of a claim is beside its block, in a list if any claim has one.
func TestClaimShow_Scope(t *testing.T) {
	eth := stage.Bound(gen.Claim("eth0", gen.OfClass("endpoint"), gen.Within("network", "vpc-1", "location", "ams"), stage.HourAgo), "2001:db8::/96", ipamv1alpha1.PoolRef{Name: "subnet-1"})
	vpc := stage.Bound(gen.Claim("vpc-1", gen.OfClass("vpc"), gen.Within("network", "vpc-1"), gen.ForRange(), stage.HourAgo), "2001:db8::/48", ipamv1alpha1.PoolRef{Name: "vpc-1"})
	for _, claim := range []*ipamv1alpha1.IPClaim{eth, vpc} {
		s := stage.New(t)
		describeClaim(s.Session, claim, nil)
		stage.Golden(t, "claim_show_"+claim.Name, s.Printed.String())
	}
	s := stage.New(t)
	list := &ipamv1alpha1.IPClaimList{Items: []ipamv1alpha1.IPClaim{*eth, *vpc, *gen.Claim("flat", stage.HourAgo)}}
	if err := (&output.Printer{Format: output.Table}).Print(s.Out, list, s.Now); err != nil {
		t.Fatal(err)
	}
	stage.Golden(t, "claim_list_scope", s.Printed.String())
}

// A claim that lacks roles is told which its class requires, and which it has.
func TestWhy_Scope(t *testing.T) {
	class := gen.Class("endpoint", gen.DefaultLength(32))
	class.Status.RequiredScopeRoles = []string{"location", "network"}
	claim := stage.Waiting(gen.Claim("eth0", gen.OfClass("endpoint"), gen.Within("network", "vpc-1"), stage.HourAgo), ipamv1alpha1.ReasonScopeRolesMissing,
		`class "endpoint" requires an object for each of its roles, and spec.scope names none for location: add it in a new claim`)
	s := stage.New(t)
	if err := (question{claim: claim, class: class}).explain(s.Session); err != nil {
		t.Fatal(err)
	}
	stage.Golden(t, "why_scope", s.Printed.String())
}
