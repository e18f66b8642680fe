//go:build long

package e2e

import "testing"

// A hundred networks of one CIDR have ten subnets of ten hosts each, which eight clients make while the controller is killed again and again.
func TestLong_OverlappingNetworksOfACrowd(t *testing.T) {
	o := newOverlap(t, 100, 10, 10)
	o.fill(8, 4, func() {
		o.platform.KillController(t)
		o.platform.StartController(t)
	})
	o.wantNothingTwice()
}
