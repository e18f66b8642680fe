package claim

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// The answer of the controller comes first, and then every pool that comes into question.
func TestWhy(t *testing.T) {
	class := gen.Class("internal", gen.DefaultLength(28))
	class.Status.OfferingPools = 1
	claim := stage.Waiting(gen.Claim("web", gen.OfClass("internal"), gen.Length(24)), ipamv1alpha1.ReasonPoolExhausted,
		`pool "full": no free /24; pool "small": no free /24: the largest free block is a /26`)
	backs := gen.Backs("internal")
	q := question{claim: claim, class: class, pools: []ipamv1alpha1.IPPool{
		*stage.Ready(gen.Pool("full", backs), "10.0.0.0/24", ipamv1alpha1.IPv4, 100, 0),
		*stage.Ready(gen.Pool("small", backs), "10.0.1.0/24", ipamv1alpha1.IPv4, 50, 26),
		*stage.Ready(gen.Pool("narrow", backs, gen.Lengths{Min: 26, Max: 28}), "10.0.2.0/24", ipamv1alpha1.IPv4, 0, 26),
		*stage.Ready(gen.Pool("other", backs), "2001:db8::/64", ipamv1alpha1.IPv6, 0, 64),
		*stage.Ready(gen.Pool("roomy", backs), "10.1.0.0/16", ipamv1alpha1.IPv4, 60, 20),
		*gen.Pool("new", backs, gen.CIDR("10.2.0.0/16")),
	}}
	q.pools[0].Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Cooling: "16"}
	q.pools[0].Status.NextRelease = &metav1.Time{Time: stage.Noon.Add(12 * time.Second)}
	s := stage.New(t)
	if err := q.explain(s.Session); err != nil {
		t.Fatalf("explain: %v", err)
	}
	stage.Golden(t, "why", s.Printed.String())

	s = stage.New(t)
	alone := question{claim: stage.Waiting(gen.Claim("db", gen.OfClass("nobodys")), ipamv1alpha1.ReasonClassNotFound,
		`there is no class "nobodys"; name one that exists, or ask the platform to create it`)}
	if err := alone.explain(s.Session); err != nil {
		t.Fatalf("explain: %v", err)
	}
	stage.Golden(t, "why_no_class", s.Printed.String())
}

// A claim that the platform's pools serve needs no pool of its own workspace, and is not told
// that it lacks one.
func TestWhy_NoPools(t *testing.T) {
	served, bare := gen.Class("internal"), gen.Class("internal")
	served.Status.OfferingPools = 1
	for _, test := range []struct {
		name string
		question
		want string
	}{
		{"served by the platform", question{claim: gen.Claim("a", gen.OfClass("internal")), class: served},
			"the platform's pools serve this class; a pool of this workspace is not needed"},
		{"served by no pool", question{claim: gen.Claim("a", gen.OfClass("internal")), class: bare},
			"neither the platform nor this workspace has a ready pool for this class"},
		{"of no class", question{claim: gen.Claim("a", gen.OfClass("nobodys"))}, ""},
		{"from an own pool", question{claim: gen.Claim("a", gen.FromPool("own"))}, "no pool of this workspace comes into question"},
		{"from another workspace", question{claim: gen.Claim("a", gen.FromPoolIn("root:net", "edge"))}, "the pools of root:net are not shown to you"},
	} {
		if got := test.noPools(); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
