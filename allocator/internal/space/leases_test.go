package space

import (
	"net/netip"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Leases are put and removed in any order. Tell always returns when the next one ends.
func TestLeases_KnowTheNextEnd(t *testing.T) {
	l := newLeases()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(i int) ledger.Position {
		p := netip.MustParsePrefix("10.0.0.0/32")
		for range i {
			p = netip.MustParsePrefix(p.Addr().Next().String() + "/32")
		}
		return ledger.Position{Space: "s", Prefix: p}
	}
	ends := map[int]int{}
	for step, i := range []int{5, 3, 8, 3, 1, 9, 1, 5, 0, 2, 8, 7} {
		if _, there := ends[i]; there && step%2 == 1 {
			delete(ends, i)
			l.Remove(at(i))
		} else {
			ends[i] = (i*7 + step) % 11
			l.Put(at(i), ledger.Lease{Until: start.Add(time.Duration(ends[i]) * time.Minute)})
		}
		want := time.Time{}
		for _, minutes := range ends {
			if until := start.Add(time.Duration(minutes) * time.Minute); want.IsZero() || until.Before(want) {
				want = until
			}
		}
		if _, next := l.Tell(start.Add(-time.Hour)); !next.Equal(want) {
			t.Fatalf("after step %d the next one ends at %s; want %s", step, next, want)
		}
	}
}
