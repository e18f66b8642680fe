package resolve_test

import (
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The message names each pool of the class, and the largest block that each can give.
func TestResolve_NoPoolHasTheLength(t *testing.T) {
	class := gen.Backs("c")
	w := world{
		classes: []*ipamv1alpha1.IPClass{gen.Class("c", gen.Lengths{Min: 16, Max: 30})},
		pools: map[directory.Workspace][]*ipamv1alpha1.IPPool{
			web: {ready(gen.Pool("own", class, gen.CIDR("10.0.0.0/22")))},
			platform: {
				ready(gen.Pool("full", class, isPlatform, gen.CIDR("10.1.0.0/24"))),
				ready(gen.Pool("narrow", class, isPlatform, gen.Lengths{Min: 26, Max: 28})),
				ready(gen.Pool("used", class, isPlatform, gen.CIDR("10.3.0.0/24"))),
				gen.Pool("not-ready", class, isPlatform),
			},
		},
		rooms: map[string]resolve.Room{
			"own": {Largest: 22}, "full": {Largest: -1}, "narrow": {Largest: 12}, "used": {Largest: 27},
		},
	}
	const want = `pool "own" hands out /22 to /32, not /20: the largest block it can give is a /22; ` +
		`pool "full" hands out /24 to /32, not /20: it has no block to give; ` +
		`pool "narrow" hands out /26 to /28, not /20: the largest block it can give is a /26; ` +
		`pool "used" hands out /24 to /32, not /20: the largest block it can give is a /27`
	_, err := query(web, gen.Claim("x", gen.OfClass("c"), gen.Length(20))).Resolve(w)
	checkReason(t, err, ipamv1alpha1.ReasonPoolExhausted)
	if got := err.Error(); got != "PoolExhausted: "+want {
		t.Errorf("the claim is told %s\nwant PoolExhausted: %s", got, want)
	}
}

// Pools that cannot serve the length are named beside those that may: the claim waits
// for either.
func TestResolve_SomePoolsHaveTheLength(t *testing.T) {
	w := place()
	w.pools[web][0].Spec.Allocation.MaxPrefixLength = 26
	w.rooms = map[string]resolve.Room{"own": {Largest: 24}}
	plan, err := query(web, gen.Claim("x", gen.OfClass("c"))).Resolve(w)
	if err != nil {
		t.Fatal(err)
	}
	const want = `pool "own" hands out /16 to /26, not /28: the largest block it can give is a /24`
	if len(plan.Unfit) != 1 || plan.Unfit[0].Message != want {
		t.Errorf("Unfit = %v, want one that says %s", plan.Unfit, want)
	}
}

// Of several refusals, one that waits comes before one that stays, and a missing block
// before a missing pool.
func TestResolve_SeveralRefusals(t *testing.T) {
	const gold = "gold"
	narrow := ready(gen.Pool("narrow", gen.Label("tier", gold), gen.Lengths{Min: 20, Max: 24}))
	six := ready(gen.Pool("six", gen.Label("tier", gold), gen.CIDR("2001:db8::/32")))
	unready := gen.Pool("unready", gen.Label("tier", gold))
	for _, tt := range []struct {
		name  string
		pools []*ipamv1alpha1.IPPool
		want  ipamv1alpha1.Reason
	}{
		{"no block, no pool, another family", []*ipamv1alpha1.IPPool{six, unready, narrow}, ipamv1alpha1.ReasonPoolExhausted},
		{"no pool, another family", []*ipamv1alpha1.IPPool{six, unready}, ipamv1alpha1.ReasonPoolNotFound},
		{"another family", []*ipamv1alpha1.IPPool{six}, ipamv1alpha1.ReasonFamilyMismatch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			claim := gen.Claim("x", gen.Selecting("tier", gold), gen.Length(28), gen.Family(ipamv1alpha1.IPv4))
			_, err := query(web, claim).Resolve(world{pools: map[directory.Workspace][]*ipamv1alpha1.IPPool{web: tt.pools}})
			checkReason(t, err, tt.want)
		})
	}
}
