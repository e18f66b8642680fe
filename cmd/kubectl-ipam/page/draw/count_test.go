package draw_test

import (
	"math/big"
	"net/netip"
	"testing"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page/draw"
)

// Numbers of addresses are exact while people can read them.
func TestCount(t *testing.T) {
	t.Parallel()
	for digits, want := range map[string]string{
		"0": "0", "112": "112", "1024": "1,024", "1048576": "1,048,576", "999999999": "999,999,999",
		"4294967296": "2³²", "4294967297": "4.29×10⁹", "79228162514264337593543950336": "2⁹⁶", "271000000000000000000000000": "2.71×10²⁶",
	} {
		n, _ := new(big.Int).SetString(digits, 10)
		if got := draw.Count(n); got != want {
			t.Errorf("Count(%s) = %q, want %q", digits, got, want)
		}
	}
	if got := draw.Size(netip.MustParsePrefix("2001:db8::/32")); got != "2⁹⁶" {
		t.Errorf("Size(2001:db8::/32) = %q, want %q", got, "2⁹⁶")
	}
}
