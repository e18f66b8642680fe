package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// domain registers a /16, and a /24 inside it, in one address domain.
func (l *fixture) domain() {
	l.t.Helper()
	l.registerIn("big", "10.0.0.0/16")
	l.registerIn("small", "10.0.0.0/24")
}

// Room that is held for a claim at one pool of a domain lies in an exclusion of another pool. The capacity of that
// other pool does not change.
func TestCapacity_IgnoresAHoldInAnExclusion(t *testing.T) {
	l := newLedger(t)
	l.domain()
	for _, excluded := range []string{"10.0.0.0/28", "10.0.0.32/28"} {
		must.Do(t, l.Pools().Exclude(t.Context(), "small", []netip.Prefix{prefix(excluded)}))
		before, _ := l.Pools().Capacity("small")
		l.Waits().Add(exactly(request("big", "inside", 0), "10.0.0.0/30"))
		l.Waits().Add(exactly(request("big", "around", 0), "10.0.0.32/27"))
		l.Waits().Add(exactly(request("big", "beside", 0), "10.0.0.128/28"))
		if after, _ := l.Pools().Capacity("small"); before.Available.Cmp(after.Available) != 0 || before.Allocated.Cmp(after.Allocated) != 0 {
			t.Errorf("%s excluded: %v addresses are available, and %v where some are held; want the same", excluded, before.Available, after.Available)
		}
		for _, claim := range []ledger.ClaimID{"inside", "around", "beside"} {
			l.Waits().Withdraw(claim)
		}
	}
}

// Pools of both families share a domain. The key of an IPv6 block lies between those of IPv4 addresses, but the block
// is no obstacle to an adoption there.
func TestAdopt_IgnoresBlocksOfTheOtherFamily(t *testing.T) {
	l := newLedger(t)
	l.registerIn("p", "128.0.0.0/1")
	l.registerIn("six", "2001:db8::/32")
	l.bind(request("six", "six", 48))
	l.adopt("a", "200.0.0.0/7")
	must.Fail(l.Recovery().Adopt(t.Context(), exactly(request("p", "b", 0), "200.0.0.0/7"), ledger.Bound))(t, ledger.ErrInUse)
	blocks, err := l.Pools().Overlapping(t.Context(), "p", prefix("200.0.0.0/7"))
	if err != nil || len(blocks) != 1 {
		t.Errorf("Overlapping = %v, %v; want the block of a", blocks, err)
	}
	l.wantBlocks("200.0.0.0/7 a bound", "2001:db8::/48 six bound")
}

// A space has at most MaxSpacePools pools, except lost pools that are registered again as frozen.
func TestRegister_BoundsThePoolsOfASpace(t *testing.T) {
	l := newLedger(t)
	register := func(i int, frozen bool) error {
		p := member(ledger.PoolID(fmt.Sprint("p", i)), fmt.Sprintf("10.%d.0.0/16", i))
		p.Frozen = frozen
		_, err := l.Pools().Register(t.Context(), p)
		return err
	}
	for i := range ledger.MaxSpacePools {
		must.Do(t, register(i, false))
	}
	var crowded *ledger.CrowdedError
	if err := register(ledger.MaxSpacePools, false); !errors.As(err, &crowded) {
		t.Errorf("Register of one too many: %v; want a CrowdedError", err)
	}
	must.Do(t, register(0, false))
	must.Do(t, register(ledger.MaxSpacePools, true))
}
