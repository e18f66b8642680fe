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
