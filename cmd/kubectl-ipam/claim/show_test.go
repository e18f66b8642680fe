package claim

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// Unprintable characters in a page are escaped.
func TestHostile_IsSpelledOut(t *testing.T) {
	s := stage.New(t)
	describeClaim(s.Session, stage.Waiting(gen.Claim("web"), "Bad\x1b[31mred", "one\ttwo\nthree \xff\u202e"), nil)
	for _, want := range []string{`Bad\x1b[31mred`, `one\ttwo\nthree \xff\u202e`} {
		if !strings.Contains(s.Printed.String(), want) {
			t.Errorf("the page says %q, want it to say %s", s.Printed, want)
		}
	}
}

// A claim is shown with its block, or with the reason why it has none.
func TestClaimShow(t *testing.T) {
	web := stage.Bound(gen.Claim("web", gen.OfClass("internal"), gen.Length(28), stage.HourAgo), "10.64.0.0/28", stage.OfPlatform("internal-a"))
	web.Annotations = map[string]string{ipamv1alpha1.AnnotationDescription: "the shop"}
	full := stage.Waiting(gen.Claim("batch", gen.OfClass("internal"), gen.Length(24), stage.HourAgo),
		ipamv1alpha1.ReasonPoolExhausted, `pool "lab": no free /24: the largest free block is a /26`)
	for _, claim := range []*ipamv1alpha1.IPClaim{web, full} {
		s := stage.New(t)
		describeClaim(s.Session, claim, nil)
		stage.Golden(t, "claim_show_"+claim.Name, s.Printed.String())
	}
}

// The command that gives a block back names the namespace of its claim.
func TestHeld_NamesTheNamespace(t *testing.T) {
	if hint := exit.HintOf(held("10.0.0.16/28", client.ObjectKey{Namespace: "shop", Name: "web"})); !strings.Contains(hint, "claim release web -n shop") {
		t.Errorf("the hint is %q; want it to name the namespace", hint)
	}
}
