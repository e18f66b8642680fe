package claim

import (
	"testing"

	"github.com/kcp-ipam/ipam/test/gen"
)

func TestSightings(t *testing.T) {
	var seen sightings
	claim := gen.Claim("c")
	claim.UID, claim.ResourceVersion = "uid", "7"
	seen.saw(claim)
	if seen.deleted(claim) {
		t.Error("a claim that a list left out, as it was last seen, was seen being deleted")
	}
	seen.saw(claim)
	claim.ResourceVersion = "9"
	if !seen.deleted(claim) {
		t.Error("a deletion with a version of its own was not seen")
	}
	if seen.deleted(claim) {
		t.Error("a claim that was never seen was seen being deleted")
	}
}
