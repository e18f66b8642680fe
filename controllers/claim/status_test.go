package claim

import (
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A claim that waits shows what it asks for. One that an older version refused for the same reason
// keeps its class as it is, and is not written.
func TestRefused_ShowsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	because := &outcome.Refusal{Reason: ipamv1alpha1.ReasonClassNotFound, Message: "there is none"}
	for name, row := range map[string]struct {
		option           gen.ClaimOption
		class, requested string
	}{
		"a length":   {gen.Length(26), "internal", "/26"},
		"an address": {gen.Address("192.0.2.7"), "internal", "192.0.2.7"},
	} {
		claim := gen.Claim("c", gen.OfClass("internal"), row.option)
		refused(claim, because)
		if got := claim.Status; got.ClassName != row.class || got.Requested != row.requested {
			t.Errorf("%s: the claim shows class %q and %q, want %q and %q", name, got.ClassName, got.Requested, row.class, row.requested)
		}
	}
	old := gen.Claim("c", gen.OfClass("internal"))
	outcome.Refuse(&old.Status.Conditions, old.Generation, because)
	refused(old, because)
	if got := old.Status.ClassName; got != "" {
		t.Errorf("a claim that was refused before shows class %q, want it as it was", got)
	}
}
