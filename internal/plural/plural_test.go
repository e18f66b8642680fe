package plural_test

import (
	"testing"

	"github.com/kcp-ipam/ipam/internal/plural"
)

func TestOf_UsesTheSingularForOne(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 claims", 1: "1 claim", 2: "2 claims", 11: "11 claims"} {
		if got := plural.Of(n, "claim", "claims"); got != want {
			t.Errorf("Of(%d) = %q, want %q", n, got, want)
		}
	}
	if got, want := plural.Of("1", "address", "addresses"), "1 address"; got != want {
		t.Errorf("Of of digits = %q, want %q", got, want)
	}
}
