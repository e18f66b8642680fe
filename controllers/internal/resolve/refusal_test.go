package resolve_test

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// People read these messages, and pages quote them. If a message changes on purpose, change it here, too.
func TestResolve_Messages(t *testing.T) {
	for message, tt := range map[string]struct {
		claim  *ipamv1alpha1.IPClaim
		change func(*world)
		reason ipamv1alpha1.Reason
	}{
		`there is no class "nope"; name one that exists, or ask the platform to create it`: {
			claim: gen.Claim("x", gen.OfClass("nope")), reason: ipamv1alpha1.ReasonClassNotFound},
		`the claim names no class and there is no default IPv6 class; set spec.className in a new claim, or have a default class created`: {
			claim: gen.Claim("x", v6), reason: ipamv1alpha1.ReasonNoDefaultClass},
		`class "c" is provisioned by "example.com/other", which is not served here`: {
			claim: gen.Claim("x", gen.OfClass("c")), reason: ipamv1alpha1.ReasonUnknownProvisioner,
			change: func(w *world) { w.classes[0].Spec.Provisioner = "example.com/other" }},
		`address family IPv6 does not match class "c", which is IPv4`: {
			claim: gen.Claim("x", gen.OfClass("c"), v6), reason: ipamv1alpha1.ReasonFamilyMismatch},
		`class "c" hands out /24 to /28; /29 is outside this range`: {
			claim: gen.Claim("x", gen.OfClass("c"), gen.Length(29)), reason: ipamv1alpha1.ReasonPrefixLengthRejected},
		`class "c" has no default prefix length; claim one from /24 to /28`: {
			claim: gen.Claim("x", gen.OfClass("c")), reason: ipamv1alpha1.ReasonPrefixLengthRejected,
			change: func(w *world) { w.classes[0].Spec.DefaultPrefixLength = 0 }},
		`class "c" exists, but no ready pool here or on the platform offers it`: {
			claim: gen.Claim("x", gen.OfClass("c")), reason: ipamv1alpha1.ReasonNoOfferingPool,
			change: func(w *world) { w.pools = nil }},
		`172.16.0.0/28 lies in no pool that may serve this claim`: {
			claim: gen.Claim("x", gen.OfClass("c"), gen.Address("172.16.0.0/28")), reason: ipamv1alpha1.ReasonAddressOutOfRange},
		`pool "own" is not ready`: {
			claim: gen.Claim("x", gen.FromPool("own"), gen.Length(28)), reason: ipamv1alpha1.ReasonPoolNotFound,
			change: func(w *world) { w.pools[web][0].Status.Conditions = nil }},
		`address family IPv6 does not match pool "own", which is IPv4`: {
			claim: gen.Claim("x", gen.FromPool("own"), v6, gen.Length(28)), reason: ipamv1alpha1.ReasonFamilyMismatch},
		`pool "own" is not ready: Overlap`: {
			claim: gen.Claim("x", gen.FromPool("own"), gen.Length(28)), reason: ipamv1alpha1.ReasonPoolNotFound,
			change: func(w *world) {
				w.pools[web][0].Status.Conditions[0] = metav1.Condition{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionFalse, Reason: string(ipamv1alpha1.ReasonOverlap)}
			}},
		`there is no pool "nope" here; name one that exists, create it, or ask its owner to share it; a pool of the platform is claimed by class`: {
			claim: gen.Claim("x", gen.FromPool("nope"), gen.Length(28)), reason: ipamv1alpha1.ReasonPoolNotFound},
		`there is no pool "own" in the workspace "root:acme:db" that this one may use; name one that exists, create it, or ask its owner to share it; a pool of the platform is claimed by class`: {
			claim: gen.Claim("x", gen.FromPoolIn(db.Path, "own"), gen.Length(28)), reason: ipamv1alpha1.ReasonPoolNotFound},
		`there is no pool "own" in the workspace "root:nowhere" that this one may use; name one that exists, create it, or ask its owner to share it; a pool of the platform is claimed by class`: {
			claim: gen.Claim("x", gen.FromPoolIn("root:nowhere", "own"), gen.Length(28)), reason: ipamv1alpha1.ReasonPoolNotFound},
		`the pool selector matches no ready pool here`: {
			claim: gen.Claim("x", gen.Selecting("site", "none"), gen.Length(28)), reason: ipamv1alpha1.ReasonPoolNotFound},
	} {
		w := place()
		if tt.change != nil {
			tt.change(&w)
		}
		_, err := query(web, tt.claim).Resolve(w)
		refusal, ok := errors.AsType[*outcome.Refusal](err)
		if !ok || refusal.Reason != tt.reason || refusal.Message != message {
			t.Errorf("the refusal is %v; want %s: %s", err, tt.reason, message)
		}
	}
}

// The message names each pool of the class, and the largest block that each can give.
func TestResolve_NamesTheLargestBlockOfEachPool(t *testing.T) {
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

// The message also names the pools that do not hand out the length, beside those that do, because the claim waits for
// either.
func TestResolve_NamesPoolsWithoutTheLength(t *testing.T) {
	w := place()
	w.pools[web][0].Spec.Allocation.MaxPrefixLength = 26
	w.rooms = map[string]resolve.Room{"own": {Largest: 24}}
	plan := must.Get(query(web, gen.Claim("x", gen.OfClass("c"))).Resolve(w))(t)
	const want = `pool "own" hands out /16 to /26, not /28: the largest block it can give is a /24`
	if len(plan.Unfit) != 1 || plan.Unfit[0].Message != want {
		t.Errorf("Unfit = %v, want one that says %s", plan.Unfit, want)
	}
}

// Of several refusals, one that waits is reported before one that is stalled, and a missing block before a missing
// pool.
func TestResolve_ReportsTheRefusalThatWaits(t *testing.T) {
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
