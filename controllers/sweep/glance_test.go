package sweep

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// change notes that blocks have changed, as the watch would.
func (s *scene) change(blocks ...ledger.Block) {
	s.changed = map[ledger.Position]ledger.Block{}
	for _, b := range blocks {
		s.changed[ledger.Position{Space: b.Space, Prefix: b.Prefix}] = b
	}
}

// A glance reads nothing from etcd, and looks only at the blocks that have changed.
func TestGlance_LooksOnlyAtBlocksThatHaveChanged(t *testing.T) {
	t.Parallel()
	s := newScene(t, 1000)
	s.change(s.blocks[3], s.blocks[7])
	for _, want := range []int{2, 2} {
		if s.glance(t.Context()); s.looked != want || len(s.lists) != 0 {
			t.Errorf("glances at 2 changes looked at %d holders and listed the ledger %d times; want %d and 0", s.looked, len(s.lists), want)
		}
	}
}

// While the claim of an answered CREATE may still come, a glance does not look at its block. Afterwards a glance looks
// at the block, without waiting for a round, unless the block was freed. The glance sights the orphan, and does not
// suspect it.
func TestGlance_LooksAtAnAnswerAfterItsGrace(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2)
	for i := range s.blocks {
		s.answers(i, s.clock.Now())
		s.states[s.blocks[i].Holder.Claim] = Orphaned
	}
	left, freed := s.blocks[0], s.blocks[1]
	s.change(left, freed)
	s.glance(t.Context())
	s.change(ledger.Block{Space: freed.Space, Prefix: freed.Prefix})
	s.clock.Step(promise.Grace - time.Millisecond)
	if s.glance(t.Context()); s.looked != 0 || len(s.round.sightings) != 0 {
		t.Fatalf("%d holders were looked at, and %v are sighted; want none while a CREATE may succeed", s.looked, s.round.sightings)
	}
	s.clock.Step(time.Millisecond)
	s.glance(t.Context())
	if _, sighted := s.round.sightings[left.Holder.Claim]; s.looked != 1 || !sighted || len(s.suspected) != 0 {
		t.Errorf("%d holders were looked at, sighted are %v, suspected %v; want a sighting of the one that is left", s.looked, s.round.sightings, s.suspected)
	}
	if len(s.recent) != 0 {
		t.Errorf("%d blocks are remembered, want none", len(s.recent))
	}
}

// An orphan that a glance has seen is suspected at the end of the next round, even if the current round had passed its
// block before. The current round does not suspect the orphan, because it may look at the block only a moment after the
// glance.
func TestGlance_LetsTheNextRoundSuspectAnOrphan(t *testing.T) {
	t.Parallel()
	l := newSlow(t)
	l.sweep(t) // passes the first block
	l.states["0"] = Orphaned
	l.change(l.blocks[0])
	for look := range 7 {
		want := 0
		if look == 6 { // the end of the next round
			want = 1
		}
		if got := l.sweep(t); len(got) != want {
			t.Errorf("look %d suspects %v, want %d", look, got, want)
		}
	}
}

// A block that was too young for one glance is looked at by a later glance, once it is old enough.
func TestGlance_LooksAtAYoungBlockOnceItIsOld(t *testing.T) {
	t.Parallel()
	s := newScene(t, 1)
	s.orphan(1)
	s.blocks[0].BoundAt = s.clock.Now()
	s.change(s.blocks[0])
	for _, want := range []int{0, 0, 1} {
		if s.glance(t.Context()); len(s.round.sightings) != want {
			t.Errorf("at an age of %s there are %d sightings, want %d", s.clock.Since(s.blocks[0].BoundAt), len(s.round.sightings), want)
		}
		s.clock.Step(s.MinAge / 2)
	}
}

// A glance suspects no orphan, however many glances have seen it: the brake needs the number of orphans, which a glance
// does not know. A glance wakes a claim that has lost its record, and leaves a cooling block alone.
func TestGlance_LeavesOrphansToTheBrake(t *testing.T) {
	t.Parallel()
	s := newScene(t, 3)
	s.states["0"], s.states["1"], s.states["2"] = Unrecorded, Orphaned, Orphaned
	s.blocks[1].State = ledger.Cooling
	for range 5 {
		s.change(s.blocks...)
		s.glance(t.Context())
		s.clock.Step(time.Minute)
	}
	if _, seen := s.round.sightings["2"]; !seen || len(s.round.sightings) != 1 || len(s.suspected) != 0 || !slices.Equal(slices.Compact(s.woken), []ledger.ClaimID{"0"}) {
		t.Errorf("suspected are %v, woken %v, sighted %v; want nobody, 0, and 2", s.suspected, s.woken, s.round.sightings)
	}
}

// land is a sweeper over a real ledger. No block in it is too young.
type land struct {
	*scene
	ledger *allocator.Allocator
}

func newLand(t *testing.T, blocks int) *land {
	t.Helper()
	l := &land{newScene(t, 0), testbed.Ledger(t, etcdtest.New(t).Client(), allocator.Options{},
		testbed.Pool("w", "p", "10.0.0.0/16"), testbed.Pool("w", "q", "2001:db8::/32"))}
	for _, id := range []ledger.PoolID{"p", "q"} {
		var binds sync.WaitGroup
		for i := range blocks {
			binds.Go(func() { l.bind(t, id, fmt.Sprint(id, i)) })
		}
		binds.Wait()
	}
	l.Ledger = views.Of(l.ledger)
	l.clock.SetTime(time.Now().Add(time.Hour))
	return l
}

func (l *land) bind(t *testing.T, pool ledger.PoolID, claim string) ledger.Block {
	t.Helper()
	b, err := l.ledger.Bind(context.WithoutCancel(t.Context()), ledger.Request{
		Pool: pool, Length: map[ledger.PoolID]int{"p": 32, "q": 64}[pool], Policy: ledger.Delete,
		Holder: ledger.Holder{Claim: ledger.ClaimID(claim), Cluster: "w", Namespace: "n", Name: claim},
	})
	if err != nil {
		t.Errorf("Bind(%s): %v", claim, err)
	}
	return b
}

// A round of a real ledger in several parts sees every block once, and suspects the orphans that two rounds in a row
// have seen. A round in a single part does the same.
func TestLedger_RoundInPartsSeesEachBlockOnce(t *testing.T) {
	t.Parallel()
	const each = 1500
	l := newLand(t, each)
	for _, claim := range []ledger.ClaimID{"p0", "p733", "q1499"} {
		l.states[claim] = Orphaned
	}
	for round, parts := range []int{1, 7, 7, 1} {
		l.parts, l.suspected = parts, nil
		for looks := 0; ; {
			must.Do(t, l.look(t.Context()))
			if looks++; l.round.blocks == 0 {
				if looks != parts {
					t.Errorf("round %d ended after %d looks, want %d", round, looks, parts)
				}
				break
			}
		}
		if l.Sweeper.blocks != 2*each {
			t.Errorf("round %d has seen %d blocks, want %d", round, l.Sweeper.blocks, 2*each)
		}
		slices.Sort(l.suspected)
		if want := []ledger.ClaimID{"p0", "p733", "q1499"}; round > 0 && !slices.Equal(l.suspected, want) {
			t.Errorf("round %d suspects %v, want %v", round, l.suspected, want)
		}
	}
}

// A glance at a real ledger sees a block that was bound after the previous glance, before a round has seen it.
func TestLedger_GlanceSeesANewBlock(t *testing.T) {
	t.Parallel()
	l := newLand(t, 10)
	l.glance(t.Context())
	b := l.bind(t, "p", "lost")
	l.states["lost"] = Orphaned
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		l.glance(ctx)
		return l.round.sightings["lost"] == b.Revision, nil
	}); err != nil {
		t.Fatalf("no glance sees the block that was bound: %v", err)
	}
	if len(l.round.sightings) != 1 {
		t.Errorf("sightings = %v, want that of the lost claim alone", l.round.sightings)
	}
}
