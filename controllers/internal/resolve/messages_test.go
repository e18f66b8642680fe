package resolve_test

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Messages are read by people and quoted on pages. One that changes is to change here, on purpose.
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
