package v1alpha1

import (
	"net/netip"
	"testing"
)

// The number of an address is its last bits, and a pool has an address for each number that fits.
func TestClassNumber(t *testing.T) {
	for _, tt := range []struct {
		bits   int32
		pool   string
		number int64
		want   string // empty: the pool has none
	}{
		{24, "fd00::/104", 4711, "fd00::1267/128"},
		{24, "fd00::/104", 0, "fd00::/128"},
		{24, "fd00::/104", 1<<24 - 1, "fd00::ff:ffff/128"},
		{24, "fd00::/104", 1 << 24, ""},
		{24, "fd00::100/120", 256 + 7, "fd00::107/128"},
		{24, "fd00::100/120", 7, ""},
		{8, "fd00::1:0/112", 7, "fd00::1:7/128"},
		{8, "fd00::/64", 7, "fd00::7/128"},
		{12, "10.0.16.0/20", 100, "10.0.16.100/32"},
		{32, "0.0.0.0/0", 1<<32 - 1, "255.255.255.255/32"},
		{32, "10.0.0.0/8", 1, ""},
		{8, "10.0.0.0/24", -1, ""},
	} {
		n := ClassNumber{Bits: tt.bits}
		got, ok := n.In(netip.MustParsePrefix(tt.pool), tt.number)
		if ok != (tt.want != "") || ok && got.String() != tt.want {
			t.Errorf("the address of number %d of %d bits in %s is %s, %t; want %s", tt.number, tt.bits, tt.pool, got, ok, tt.want)
		}
		if number := n.Of(got.Addr()); ok && number != tt.number {
			t.Errorf("the number of %s is %d, want %d", got, number, tt.number)
		}
	}
}
