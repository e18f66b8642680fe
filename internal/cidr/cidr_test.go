package cidr_test

import (
	"net/netip"
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
