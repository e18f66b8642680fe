//go:build long

package e2e

import "testing"

// A hundred networks of one CIDR have ten subnets of ten hosts each. Eight clients make them while the controller is
// killed again and again. These are more pools than a workspace may have by default. Idle pools stay as long as by
// default: a busy kcp takes seconds for an IPPool, and a pool must not go before its first host is requested again.
func TestLong_OverlappingGivesACrowdNothingTwice(t *testing.T) {
	o := newOverlap(t, 100, 10, 10, "--max-pools-per-workspace=0")
	o.fill(8, 4, func() {
		o.platform.KillController(t)
		o.platform.StartController(t)
	})
	o.wantNothingTwice()
}
