package sweep

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// poolScene is a scene of root pools that are an hour old.
func poolScene(t *testing.T, ids ...ledger.PoolID) *scene {
	t.Helper()
	s := newScene(t, 0)
	s.held, s.unseen = map[ledger.PoolID]int{}, map[ledger.PoolID]bool{}
	for _, id := range ids {
		s.pools = append(s.pools, ledger.Pool{
			ID: id, Cluster: "w", Name: string(id), State: ledger.PoolOpen, RegisteredAt: s.clock.Now().Add(-time.Hour),
		})
	}
	return s
}

// A pool is suspected by the second round that does not see its IPPool, if the pool is old enough, holds nothing, and
// nothing says that the ledger may have lost blocks.
func TestSweep_SuspectsRootPoolsWithoutAnIPPool(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(s *scene, gone *ledger.Pool)
		state  State
		want   []ledger.ClaimID // by the second pass
	}{
		"there":               {state: Held},
		"gone":                {state: Orphaned, want: []ledger.ClaimID{"gone"}},
		"in use":              {state: Orphaned, change: func(s *scene, _ *ledger.Pool) { s.held["gone"] = 1 }},
		"young":               {state: Orphaned, change: func(s *scene, p *ledger.Pool) { p.RegisteredAt = s.clock.Now().Add(-59 * time.Second) }},
		"from an old program": {state: Orphaned, change: func(_ *scene, p *ledger.Pool) { p.RegisteredAt = time.Time{} }, want: []ledger.ClaimID{"gone"}},
		"draining":            {state: Orphaned, change: func(_ *scene, p *ledger.Pool) { p.State = ledger.PoolDraining }},
		"a frozen address space": {state: Orphaned, change: func(s *scene, p *ledger.Pool) {
			p.ID, p.Frozen, p.Derived = ledger.AddressSpaceID("stays", "w", nil), true, &ledger.Derived{Of: "stays", Workspace: "w"}
			s.states[ledger.ClaimID(p.ID)] = Orphaned
		}},
		"a child":               {state: Orphaned, change: func(_ *scene, p *ledger.Pool) { p.Parent = "stays" }},
		"its workspace is away": {state: Away, want: []ledger.ClaimID{"gone"}},
		"its workspace was seen to go": {
			state: Away, change: func(s *scene, _ *ledger.Pool) { s.departed, s.held["gone"] = true, 1 }, want: []ledger.ClaimID{"gone"},
		},
		"another of its workspace was not compared": {state: Orphaned, change: func(s *scene, _ *ledger.Pool) { s.unseen["stays"] = true }},
		"another workspace's was not compared": {
			state: Orphaned, change: func(s *scene, _ *ledger.Pool) { s.unseen["stays"], s.pools[1].Cluster = true, "v" },
			want: []ledger.ClaimID{"gone"},
		},
		"another workspace's has lost blocks": {
			state: Orphaned, change: func(s *scene, _ *ledger.Pool) { s.pools[1].Frozen, s.pools[1].Cluster = true, "v" },
		},
		"another that is gone has lost blocks": {
			state: Orphaned, change: func(s *scene, _ *ledger.Pool) {
				s.pools[1].Frozen, s.states["stays"], s.held["stays"] = true, Orphaned, 1
			},
			want: []ledger.ClaimID{"gone"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := poolScene(t, "gone", "stays")
			s.states["gone"] = tt.state
			if tt.change != nil {
				tt.change(s, &s.pools[0])
			}
			if got := s.sweep(t); len(got) != 0 && !s.departed {
				t.Errorf("the first pass suspects %v, want nothing", got)
			}
			if got := s.sweep(t); !slices.Equal(got, tt.want) {
				t.Errorf("the second pass suspects %v, want %v", got, tt.want)
			}
		})
	}
}

// A pool that has lost changes may be one that nobody can make whole. It keeps the pools of its workspace from being
// released, and those of other workspaces only for a while.
func TestSweep_WaitsForALostPoolOfAnotherWorkspaceOnlyForAWhile(t *testing.T) {
	s := poolScene(t, "gone", "beside", "lost")
	s.states["gone"], s.states["beside"] = Orphaned, Orphaned
	s.pools[0].Cluster, s.pools[2].Frozen = "v", true
	s.sweep(t)
	s.clock.Step(adopting - 1)
	if got := s.sweep(t); len(got) != 0 {
		t.Errorf("%v are suspected while the ledger may be made whole; want none", got)
	}
	s.clock.Step(1)
	if got := s.sweep(t); !slices.Equal(got, []ledger.ClaimID{"gone"}) {
		t.Errorf("%v are suspected then; want the pool of the other workspace alone", got)
	}
}

func TestSweep_StartsOverForAPoolSeenInBetween(t *testing.T) {
	s := poolScene(t, "p")
	for _, state := range []State{Orphaned, Held, Orphaned} {
		s.states["p"] = state
		if got := s.sweep(t); len(got) != 0 {
			t.Errorf("%v is suspected, though two passes in a row did not miss its IPPool", got)
		}
	}
}

// holds makes a derived pool below the pool p for each of these claims, which has held the pool for an hour.
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

// The claim of a range is suspected by the second round that does not see it, as the holder of a block is. If a CREATE
// was answered with the range, its claim is suspected by the second such round after promise.Grace. The pool itself is
// never suspected.
func TestSweep_SuspectsTheClaimsOfRanges(t *testing.T) {
	young := promise.NewID("w", "n", "young")
	s := newScene(t, 0)
	s.holds("there", "gone", young)
	s.states["gone"], s.states[young] = Orphaned, Orphaned
	s.pools[2].Derived.HeldSince = s.clock.Now()
	for _, p := range s.pools {
		s.states[ledger.ClaimID(p.ID)] = Orphaned
	}
	sweeps := func(want ...ledger.ClaimID) {
		t.Helper()
		got := s.sweep(t)
		slices.Sort(want)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("suspected are %v, want %v", got, want)
		}
	}
	sweeps()
	s.clock.Step(promise.Grace - time.Millisecond)
	sweeps("gone")
	s.clock.Step(time.Millisecond)
	sweeps("gone")
	sweeps("gone", young)
}

// The brake holds if the claims of many ranges seem to be gone at once.
func TestSweep_BrakesForRanges(t *testing.T) {
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

// When a workspace has departed, the claims of its ranges are suspected, and its derived pools are not.
func TestSweep_SuspectsTheRangeClaimsOfADepartedWorkspace(t *testing.T) {
	s := newScene(t, 0)
	s.holds("c")
	s.departures.collect()
	s.Departed("w")
	if err := s.suspectDeparted(t.Context()); err != nil || !slices.Equal(s.suspected, []ledger.ClaimID{"c"}) {
		t.Errorf("suspected are %v, %v; want the claim alone", s.suspected, err)
	}
}
