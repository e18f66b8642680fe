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
		{"10.0.0.0/32", "10.0.0.0", 0, "10.0.0.0 gateway"},
		{"10.0.0.0/24", "10.0.0.0", 0, ""},
		{"10.0.0.0/24", "10.0.0.255", 0, ""},
		{"192.0.2.128/28", "192.0.2.1", 24, ""},
		{"192.0.2.240/28", "192.0.2.1", 24, "192.0.2.255 broadcast address"},
		{"192.0.2.0/28", "192.0.2.254", 24, "192.0.2.0 network address"},
		{"192.0.2.32/28", "192.0.2.1", 0, ""},
		{"192.0.2.32/28", "198.51.100.1", 24, ""},
		{"10.0.0.0/24", "10.0.1.1", 0, ""},
		{"10.0.0.0/24", "2001:db8::1", 0, ""},
		{"2001:db8::/64", "2001:db8::1", 0, "2001:db8::1 gateway, 2001:db8:: subnet-router anycast address"},
		{"2001:db8::/64", "2001:db8::", 0, "2001:db8:: gateway"},
		{"2001:db8::80/124", "2001:db8::1", 64, ""},
		{"2001:db8::/124", "2001:db8::ff", 64, "2001:db8:: subnet-router anycast address"},
		{"2001:db8::/127", "2001:db8::1", 0, "2001:db8::1 gateway"},
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

// A gateway is told to interfaces only if they can reach it: it is of their family, on their link, and neither
// the network nor the broadcast address.
func TestRouter(t *testing.T) {
	for _, tt := range []struct {
		pool, gateway string
		length        int32
		want          string // a part of the error; empty for none
	}{
		{"192.0.2.128/28", "", 24, ""},
		{"192.0.2.128/28", "192.0.2.1", 24, ""},
		{"192.0.2.128/31", "192.0.2.128", 0, ""},
		{"192.0.2.128/28", "192.0.2.1", 0, "is not in the network of the pool, 192.0.2.128/28"},
		{"192.0.2.32/28", "198.51.100.1", 24, "is not in the network of the pool, 192.0.2.0/24"},
		{"192.0.2.32/28", "2001:db8::1", 24, "is not in the network of the pool, 192.0.2.0/24"},
		{"2001:db8::/64", "192.0.2.1", 0, "is not in the network of the pool, 2001:db8::/64"},
		{"192.0.2.32/28", "192.0.2.0", 24, "is the network or broadcast address of 192.0.2.0/24"},
		{"192.0.2.32/28", "192.0.2.255", 24, "is the network or broadcast address of 192.0.2.0/24"},
	} {
		got, err := IPPoolSpec{Gateway: tt.gateway, NetworkPrefixLength: tt.length}.Router(netip.MustParsePrefix(tt.pool))
		switch {
		case tt.want == "" && (err != nil || got.IsValid() && got.String() != tt.gateway):
			t.Errorf("the gateway %q of a /%d in pool %s is %s, %v; want it as written", tt.gateway, tt.length, tt.pool, got, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("the gateway %q of a /%d in pool %s: %v; want an error with %q", tt.gateway, tt.length, tt.pool, err, tt.want)
		}
	}
}
