package sweep

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
)

// holds makes pools as the system does, below the pool p, which claims or reservations hold for an hour by now.
func (s *scene) holds(claims ...ledger.ClaimID) {
	for i, claim := range claims {
		s.pools = append(s.pools, ledger.Pool{
			ID: ledger.DerivedID("net", "w", ledger.Scope{"network": {Kind: "Network", Name: fmt.Sprint(i)}}), Cluster: "w", Parent: "p",
			State: ledger.PoolOpen, RegisteredAt: s.clock.Now().Add(-time.Hour),
			Derived: &ledger.Derived{
				Class: "net", Workspace: "w", HeldSince: s.clock.Now().Add(-time.Hour),
				Holder: ledger.Holder{Claim: claim, Cluster: "w", Namespace: "n", Name: string(claim)},
			},
		})
	}
}

// A claim that holds a pool is suspected at the second look that does not see it, as the holder of a block is; a reservation when
// no CREATE can succeed that was answered with it. The pool itself never is.
func TestSweep_Ranges(t *testing.T) {
	reserved := promise.Of("w", gen.Claim("c"))
	s := newScene(t, 0)
	s.holds("there", "gone", reserved)
	s.states["gone"] = Orphaned
	for _, p := range s.pools {
		s.states[ledger.ClaimID(p.ID)] = Orphaned
	}
	if got := s.sweep(t); !slices.Equal(got, []ledger.ClaimID{reserved}) {
		t.Errorf("the first look suspects %v, want the reservation alone", got)
	}
	got := s.sweep(t)
	if slices.Sort(got); !slices.Equal(got, []ledger.ClaimID{"gone", reserved}) {
		t.Errorf("the second look suspects %v, want the claim that is gone and the reservation", got)
	}
}

// The brake holds if many claims seem to have left their ranges at once.
func TestSweep_RangesHaveABrake(t *testing.T) {
	s := newScene(t, 0)
	for i := range few + 1 {
		claim := ledger.ClaimID(fmt.Sprint(i))
		s.holds(claim)
		s.states[claim] = Orphaned
	}
	s.sweep(t)
	if got := s.sweep(t); len(got) != 0 || s.warnings != 1 {
		t.Errorf("%d claims are suspected, with %d warnings; want none, and one", len(got), s.warnings)
	}
	s.allowed = true
	if got := s.sweep(t); len(got) != few+1 {
		t.Errorf("%d claims are suspected when it is allowed, want all %d", len(got), few+1)
	}
}

// The claims that hold ranges are asked for when their workspace has departed, and no pool of theirs is drained.
func TestSweep_RangesOfAWorkspaceThatDeparted(t *testing.T) {
	s := newScene(t, 0)
	s.holds("c")
	s.departures.collect()
	s.Departed("w")
	if err := s.suspectDeparted(t.Context()); err != nil || !slices.Equal(s.suspected, []ledger.ClaimID{"c"}) {
		t.Errorf("suspected are %v, %v; want the claim alone", s.suspected, err)
	}
}
