package main

import (
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/test/gen"
)

// An address that is kept back for two reasons, or is taken as well, is counted once.
func TestMap_CountsOnce(t *testing.T) {
	t.Parallel()
	pool := ready(gen.Pool("lab", gen.CIDR("10.0.0.0/21"), gen.Excludes("10.0.0.0/32"), gen.Reserves(1, 0, 32)), "10.0.0.0/21", ipamv1alpha1.IPv4, 1, 22)
	for taken, want := range map[string]string{"": "░", "10.0.0.0/32": "░", "10.0.0.1/32": "░", "10.0.0.2/31": "▓", "10.0.0.0/30": "█"} {
		var held []space.Holding
		if taken != "" {
			held = []space.Holding{{Block: prefix(t, taken)}}
		}
		shown, err := space.Of(pool, held)
		if err != nil {
			t.Fatal(err)
		}
		if got := (spaceMap{shown}).cells()[0].String(); got != want {
			t.Errorf("with %q taken the first /30 is drawn as %s, want %s", taken, got, want)
		}
	}
}
