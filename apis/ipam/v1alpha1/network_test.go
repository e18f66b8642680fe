package v1alpha1

import (
	"net/netip"
	"strings"
	"testing"
)

// A gateway is withheld, and with it what an IPv4 network has at its edges, as far as that is in the
// pool.
func TestWithheld(t *testing.T) {
	for _, tt := range []struct {
		pool, gateway string
		length        int32
		want          string
	}{
		{"10.0.0.0/24", "", 0, ""},
		{"10.0.0.0/24", "10.0.0.1", 0, "10.0.0.1 gateway, 10.0.0.0 network address, 10.0.0.255 broadcast address"},
		{"10.0.0.64/26", "10.0.0.65", 24, "10.0.0.65 gateway"},
		{"10.0.0.0/26", "10.0.0.1", 24, "10.0.0.1 gateway, 10.0.0.0 network address"},
		{"10.0.0.192/26", "10.0.0.254", 24, "10.0.0.254 gateway, 10.0.0.255 broadcast address"},
		{"10.0.0.0/31", "10.0.0.1", 0, "10.0.0.1 gateway"},
		{"10.0.0.0/32", "10.0.0.0", 24, "10.0.0.0 gateway"},
		{"10.0.0.0/24", "10.0.0.0", 0, "10.0.0.0 gateway, 10.0.0.255 broadcast address"},
		{"10.0.0.0/24", "10.0.1.1", 0, ""},
		{"10.0.0.0/24", "2001:db8::1", 0, ""},
		{"2001:db8::/64", "2001:db8::1", 0, "2001:db8::1 gateway"},
	} {
		var said []string
		for _, w := range (IPPoolSpec{Gateway: tt.gateway, NetworkPrefixLength: tt.length}).Withheld(netip.MustParsePrefix(tt.pool)) {
			said = append(said, w.Address.String()+" "+w.As)
		}
		if got := strings.Join(said, ", "); got != tt.want {
			t.Errorf("pool %s with the gateway %q in a /%d withholds %q, want %q", tt.pool, tt.gateway, tt.length, got, tt.want)
		}
	}
}
