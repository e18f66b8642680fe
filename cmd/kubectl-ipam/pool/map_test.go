package pool

import (
	"net/netip"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// An address that is kept back for two reasons, or is taken as well, is counted once.
func TestMap_CountsOnce(t *testing.T) {
	t.Parallel()
	pool := stage.Ready(gen.Pool("lab", gen.CIDR("10.0.0.0/21"), gen.Excludes("10.0.0.0/32"), gen.Reserves(1, 0, 32)), "10.0.0.0/21", ipamv1alpha1.IPv4, 1, 22)
	for taken, want := range map[string]string{"": "░", "10.0.0.0/32": "░", "10.0.0.1/32": "░", "10.0.0.2/31": "▓", "10.0.0.0/30": "█"} {
		var held []space.Holding
		if taken != "" {
			held = []space.Holding{{Block: netip.MustParsePrefix(taken)}}
		}
		shown, err := space.Of(pool, held)
		if err != nil {
			t.Fatalf("Of: %v", err)
		}
		if got := (spaceMap{shown}).cells()[0].String(); got != want {
			t.Errorf("with %q taken the first /30 is drawn as %s, want %s", taken, got, want)
		}
	}
}

// The map fits into COLUMNS, down to a few cells in a line.
func TestSpace_Columns(t *testing.T) {
	for _, test := range []struct {
		pool        string
		width, want int
	}{
		{"192.0.2.0/24", 0, 64}, {"192.0.2.0/24", 80, 64}, {"192.0.2.0/24", 79, 64}, {"192.0.2.0/24", 60, 32}, {"192.0.2.0/24", 10, 8}, {"2001:db8::/32", 80, 32},
	} {
		if got := (spaceMap{space.Space{Pool: netip.MustParsePrefix(test.pool)}}).columns(test.width); got != test.want {
			t.Errorf("the map of %s in lines of %d has %d columns, want %d", test.pool, test.width, got, test.want)
		}
	}
}
