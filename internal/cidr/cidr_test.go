package cidr_test

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/internal/cidr"
)

func TestSize(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"10.0.0.1/32": "1",
		"10.0.0.0/24": "256",
		"0.0.0.0/0":   "4294967296",
		"::1/128":     "1",
		"::/0":        "340282366920938463463374607431768211456",
	} {
		if got := cidr.Size(netip.MustParsePrefix(prefix)).String(); got != want {
			t.Errorf("Size(%s) = %s, want %s", prefix, got, want)
		}
	}
}

func TestNarrower(t *testing.T) {
	t.Parallel()
	wide, narrow := netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.1.0.0/16")
	if got := cidr.Narrower(wide, narrow); got != narrow {
		t.Errorf("Narrower(%v, %v) = %v, want %v", wide, narrow, got, narrow)
	}
	if got := cidr.Narrower(narrow, wide); got != narrow {
		t.Errorf("Narrower(%v, %v) = %v, want %v", narrow, wide, got, narrow)
	}
}

func TestHalves(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string][2]string{
		"10.0.0.0/8":     {"10.0.0.0/9", "10.128.0.0/9"},
		"10.64.0.0/12":   {"10.64.0.0/13", "10.72.0.0/13"},
		"192.0.2.7/24":   {"192.0.2.0/25", "192.0.2.128/25"},
		"192.0.2.2/31":   {"192.0.2.2/32", "192.0.2.3/32"},
		"::/0":           {"::/1", "8000::/1"},
		"2001:db8::/32":  {"2001:db8::/33", "2001:db8:8000::/33"},
		"2001:db8::/127": {"2001:db8::/128", "2001:db8::1/128"},
	} {
		low, high := cidr.Halves(netip.MustParsePrefix(prefix))
		if got := [2]string{low.String(), high.String()}; got != want {
			t.Errorf("Halves(%s) = %v, want %v", prefix, got, want)
		}
	}
}

// Edges returns as many blocks as are asked for, but none outside of the prefix.
func TestEdges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		prefix            string
		unit              int
		leading, trailing int32
		want              string
	}{
		{"10.0.0.0/24", 0, 0, 0, "[]"},
		{"10.0.0.0/24", 0, 1, 0, "[10.0.0.0/32]"},
		{"10.0.0.0/24", 30, 1, 2, "[10.0.0.0/30 10.0.0.248/29]"},
		{"10.0.0.0/24", 26, 3, 0, "[10.0.0.0/25 10.0.0.128/26]"},
		{"10.0.0.0/24", 26, 0, 3, "[10.0.0.128/25 10.0.0.64/26]"},
		{"10.0.0.0/24", 26, 4, 9, "[10.0.0.0/24 10.0.0.0/24]"},
		{"10.0.0.0/24", 20, 1, 0, "[10.0.0.0/24]"},
		{"10.0.0.0/24", 64, 2, 0, "[10.0.0.0/31]"},
		{"2001:db8::/32", 128, math.MaxInt32, 0, "[2001:db8::/98 2001:db8::4000:0/99"},
		{"2001:db8::/32", 64, 1, 1, "[2001:db8::/64 2001:db8:ffff:ffff::/64]"},
	} {
		if got := fmt.Sprint(cidr.Edges(netip.MustParsePrefix(test.prefix), test.unit, test.leading, test.trailing)); !strings.HasPrefix(got, test.want) {
			t.Errorf("Edges(%s, %d, %d, %d) = %s, want %s", test.prefix, test.unit, test.leading, test.trailing, got, test.want)
		}
	}
}
