package release

import (
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
)

// rootScene is a scene whose holder is a root pool.
func rootScene(t *testing.T) *scene {
	s := newScene(t)
	s.holder = ledger.Holder{Claim: "uid-of-pool", Cluster: "w", Name: "pool"}
	s.ledger.root = &ledger.Pool{ID: "uid-of-pool", Cluster: "w", Name: "pool", RegisteredAt: s.clock.Now()}
	return s
}

// A root pool leaves the ledger by the same words of the servers as a block does.
func TestSettle_ARootPool(t *testing.T) {
	for name, tt := range map[string]struct {
		verdict live.Verdict
		looks   int
		departs bool
		since   time.Duration // the endpoint slice was made, after the pool was registered
		frozen  bool
		want    bool
	}{
		"there":                                   {verdict: live.Alive, looks: 3},
		"gone":                                    {verdict: live.Gone, looks: 1, want: true},
		"gone, and its space has lost changes":    {verdict: live.Gone, looks: 3, frozen: true},
		"nobody can say":                          {verdict: live.Unknown, looks: 3},
		"unbound, once":                           {verdict: live.Unbound, looks: 1},
		"unbound, twice":                          {verdict: live.Unbound, looks: 2, want: true},
		"unbound, older than the slice":           {verdict: live.Unbound, looks: 3, since: time.Minute},
		"unbound, older than the slice, seen":     {verdict: live.Unbound, looks: 2, since: time.Minute, departs: true, want: true},
		"unbound, and its space has lost changes": {verdict: live.Unbound, looks: 3, frozen: true},
		"no endpoint":                             {verdict: live.NoEndpoint, looks: 3},
		"no endpoint, and its binding seen to go": {verdict: live.NoEndpoint, looks: 2, departs: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := rootScene(t)
			s.ledger.root.Frozen = tt.frozen
			if tt.departs {
				s.Departed("w")
			}
			s.oracle.answer.Since = s.clock.Now().Add(-time.Hour)
			if tt.since > 0 {
				s.oracle.answer.Since = s.clock.Now().Add(tt.since)
			}
			for range tt.looks {
				s.oracle.answer.Verdict, s.oracle.answer.Client = tt.verdict, s.workspace
				if _, err := s.Settle(t.Context(), s.holder); err != nil {
					t.Fatal(err)
				}
				s.clock.SetTime(s.clock.Now().Add(time.Minute))
			}
			if s.drained() != tt.want {
				t.Errorf("drained = %t after %d looks, want %t", s.drained(), tt.looks, tt.want)
			}
		})
	}
}

// A server that was restored from a backup does not know a pool that was seen deleted later.
func TestSettle_AServerOlderThanThePool(t *testing.T) {
	s := rootScene(t)
	last := gen.Pool("pool")
	last.ResourceVersion = "100"
	s.PoolDeleted(s.holder, last)
	for revision, want := range map[string]bool{"99": false, "100": true} {
		s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace, Revision: revision}
		if settled, err := s.Settle(t.Context(), s.holder); err != nil || settled != want || s.drained() != want {
			t.Errorf("server at %s: Settle = %t, %v, drained %t; want %t", revision, settled, err, s.drained(), want)
		}
		s.ledger.drained = false
	}
}
