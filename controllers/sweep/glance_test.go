package sweep

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// change notes that blocks have changed, as the watch would.
func (s *scene) change(blocks ...ledger.Block) {
	s.changed = map[ledger.Position][]ledger.Block{}
	for _, b := range blocks {
		at := ledger.Position{Space: b.Space, Prefix: b.Prefix}
		s.changed[at] = append(s.changed[at], b)
	}
}

// A glance reads nothing, and looks at nothing but what has changed.
func TestGlance_CostsWhatHasChanged(t *testing.T) {
	t.Parallel()
	s := newScene(t, 1000)
	looked := &counting{scene: s}
	s.World = looked
	s.change(s.blocks[3], s.blocks[7])
	for _, want := range []int{2, 2} {
		if s.glance(t.Context()); looked.states != want || s.reads != 0 {
			t.Errorf("glances at 2 changes looked at %d holders and listed the ledger %d times; want %d and 0", looked.states, s.reads, want)
		}
	}
}

// counting counts the holders that are looked at.
type counting struct {
	*scene
	states int
}

func (c *counting) State(_ context.Context, b ledger.Block) State {
	c.states++
	return c.scene.states[b.Holder.Claim]
}

// A reservation is hinted at when its grace is over, without a round; not if it was confirmed or freed.
func TestGlance_Reservations(t *testing.T) {
	t.Parallel()
	s := newScene(t, 3)
	for i := range s.blocks {
		s.blocks[i].State, s.blocks[i].BoundAt = ledger.Reserved, s.clock.Now()
		s.blocks[i].Holder.Claim = ledger.ReservationID("w", fmt.Sprint(i))
	}
	s.change(s.blocks...)
	s.glance(t.Context())
	confirmed, freed := s.blocks[1], s.blocks[2]
	confirmed.Holder.Claim, confirmed.State = "confirmed", ledger.Bound
	s.change(confirmed)
	s.changed[ledger.Position{Space: freed.Space, Prefix: freed.Prefix}] = nil
	s.glance(t.Context())
	if len(s.suspected) != 0 {
		t.Fatalf("reservations in flight are suspected: %v", s.suspected)
	}
	s.clock.Step(promise.Grace)
	s.glance(t.Context())
	if want := []ledger.ClaimID{s.blocks[0].Holder.Claim}; !slices.Equal(s.suspected, want) {
		t.Errorf("suspected = %v, want %v: the others are no reservations any more", s.suspected, want)
	}
	if len(s.recent) != 0 {
		t.Errorf("%d blocks are remembered, want none", len(s.recent))
	}
}

// An orphan that a glance has seen is suspected by the next round, also if the one under way had
// passed it before; and not by that one, which may be at it a moment later.
func TestGlance_IsAFirstSighting(t *testing.T) {
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

// A block that is young is looked at when it is not.
func TestGlance_LooksAgainAtTheYoung(t *testing.T) {
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

// Glances suspect no orphan, however often they see it: they do not know how many there are.
func TestGlance_LeavesOrphansToTheBrake(t *testing.T) {
	t.Parallel()
	s := newScene(t, 3)
	s.orphan(3)
	for range 5 {
		s.change(s.blocks...)
		s.glance(t.Context())
		s.clock.Step(time.Minute)
	}
	if len(s.suspected) != 0 {
		t.Errorf("glances suspect %v", s.suspected)
	}
}

// A claim that has lost its record is woken, and what cools is left alone.
func TestGlance_WakesAndLeavesAlone(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2)
	s.states["0"], s.states["1"] = Unrecorded, Orphaned
	s.blocks[1].State = ledger.Cooling
	s.change(s.blocks...)
	s.glance(t.Context())
	if !slices.Equal(s.woken, []ledger.ClaimID{"0"}) || len(s.round.sightings) != 0 {
		t.Errorf("woken = %v, sightings = %v; want 0 and none", s.woken, s.round.sightings)
	}
}
