package sweep

import (
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
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

// A pool is suspected at the second pass that does not see its IPPool, if it is old enough, holds
// nothing, and nothing says that the ledger may have lost blocks.
func TestSweep_Pools(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(s *scene, gone *ledger.Pool)
		state  State
		want   []ledger.ClaimID // by the second pass
	}{
		"there":                 {state: Held},
		"gone":                  {state: Orphaned, want: []ledger.ClaimID{"gone"}},
		"in use":                {state: Orphaned, change: func(s *scene, _ *ledger.Pool) { s.held["gone"] = 1 }},
		"young":                 {state: Orphaned, change: func(s *scene, p *ledger.Pool) { p.RegisteredAt = s.clock.Now().Add(-59 * time.Second) }},
		"from an old program":   {state: Orphaned, change: func(_ *scene, p *ledger.Pool) { p.RegisteredAt = time.Time{} }, want: []ledger.ClaimID{"gone"}},
		"draining":              {state: Orphaned, change: func(_ *scene, p *ledger.Pool) { p.State = ledger.PoolDraining }},
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

func TestSweep_APoolSeenInBetweenStartsOver(t *testing.T) {
	s := poolScene(t, "p")
	for _, state := range []State{Orphaned, Held, Orphaned} {
		s.states["p"] = state
		if got := s.sweep(t); len(got) != 0 {
			t.Errorf("%v is suspected, though two passes in a row did not miss its IPPool", got)
		}
	}
}
