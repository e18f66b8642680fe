package promise

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/gen"
)

// An ID fits one claim name in one workspace. A copy of it in a claim of another name or workspace does not count.
func TestNewID_FitsOneName(t *testing.T) {
	t.Parallel()
	id := NewID("w", "n", "c")
	if !ledger.IsAllocationID(id) || !Fits(types.UID(id), "w", "n", "c") || NewID("w", "n", "c") == id {
		t.Errorf("NewID = %s; want another one each time, which fits its name", id)
	}
	if !Fits(types.UID(id), ledger.ByNamespace("w"), "n", "c") {
		t.Error("the ID does not fit its name once the namespaces of its cluster are tenants")
	}
	for _, other := range [][3]string{{"v", "n", "c"}, {"w", "m", "c"}, {"w", "n", "d"}, {"w", "n/c", ""}} {
		if Fits(types.UID(id), ledger.ClusterName(other[0]), other[1], other[2]) {
			t.Errorf("the ID of w/n/c fits %s", strings.Join(other[:], "/"))
		}
	}
	for _, text := range []string{"", "x", strings.ToUpper(string(id)), "{" + string(id) + "}", uuid.NewString()} {
		if Fits(types.UID(text), "w", "n", "c") {
			t.Errorf("%q passes for an ID", text)
		}
	}
}

// A claim holds its block by the ID that it shows, if the ID was made for it and the claim shows a block. Otherwise it
// holds the block by its UID.
func TestIDOf_TakesAShownIDThatFits(t *testing.T) {
	t.Parallel()
	own := types.UID(NewID("w", "default", "c"))
	for name, tt := range map[string]struct {
		shows string
		id    types.UID
		want  ledger.ClaimID
	}{
		"its own":                   {"10.0.0.0/28", own, ledger.ClaimID(own)},
		"its own, without a block":  {"", own, "uid-of-c"},
		"none":                      {"10.0.0.0/28", "", "uid-of-c"},
		"that of another claim":     {"10.0.0.0/28", types.UID(NewID("w", "default", "d")), "uid-of-c"},
		"that of another workspace": {"10.0.0.0/28", types.UID(NewID("v", "default", "c")), "uid-of-c"},
	} {
		claim := gen.Claim("c")
		claim.Status.AllocatedCIDR, claim.Status.AllocationID = tt.shows, tt.id
		if got := IDOf("w", claim); got != tt.want || HolderOf("w", claim).Claim != got {
			t.Errorf("%s: IDOf = %s, want %s", name, got, tt.want)
		}
		if !Is("w", claim, tt.want) || !Is("w", claim, "uid-of-c") || Is("w", claim, "other") {
			t.Errorf("%s: the claim is not known by %s and its UID alone", name, tt.want)
		}
	}
}
