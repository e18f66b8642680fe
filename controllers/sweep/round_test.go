package sweep

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// The more work a round takes, the more parts it has. All parts together last ten minutes at most.
func TestPartsOf_GrowsWithTheWork(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		interval, took time.Duration
		want           int
	}{
		"empty ledger":     {30 * time.Second, 0, 1},
		"small ledger":     {30 * time.Second, 300 * time.Millisecond, 1},
		"large ledger":     {30 * time.Second, 2 * time.Second, 7},
		"largest ledger":   {30 * time.Second, 20 * time.Second, 20},
		"rare by the flag": {time.Hour, 20 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, 0)
			s.Interval = tt.interval
			if got := s.partsOf(tt.took); got != tt.want {
				t.Errorf("partsOf(%s) = %d with an interval of %s, want %d", tt.took, got, tt.interval, tt.want)
			}
		})
	}
}

// slow is a ledger in which the read of each block takes the duration each, and the read with the number failAt fails.
type slow struct {
	*scene
	each   time.Duration
	failAt int // counted over all lists; 0: never
}

func (l *slow) List(ctx context.Context, opts allocator.ListOptions) iter.Seq2[ledger.Block, error] {
	return func(yield func(ledger.Block, error) bool) {
		for b, err := range l.scene.List(ctx, opts) {
			if l.failAt--; l.failAt == 0 {
				err = errors.New("etcd is away")
			}
			l.clock.Step(l.each)
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// newSlow returns a slow ledger, which a round reads in four parts.
func newSlow(t *testing.T) *slow {
	t.Helper()
	l := &slow{scene: newScene(t, 40), each: 27 * time.Millisecond}
	l.Ledger.Blocks = l
	l.sweep(t)
	if l.parts != 4 {
		t.Fatalf("a round that takes 1.1 s has %d parts, want 4", l.parts)
	}
	return l
}

// The wait for an etcd that does not answer does not count as work: the next round has as few parts as before.
func TestRound_CountsNoWaitsAsWork(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"a read that is answered late": false, "a read that fails": true} {
		l := &slow{scene: newScene(t, 1), each: 20 * time.Second}
		l.Ledger.Blocks = l
		if fails {
			l.failAt = 1
			if err := l.part(t.Context()); err == nil {
				t.Fatalf("%s: part = nil, want an error", name)
			}
			l.each = 0
		}
		l.sweep(t)
		if l.parts != 1 {
			t.Errorf("%s: the next round has %d parts, want one", name, l.parts)
		}
	}
}

// Each look at a large ledger reads a part of it, and a round sees each block once.
func TestRound_ReadsAPartAtEachLook(t *testing.T) {
	t.Parallel()
	l := newSlow(t)
	l.orphan(40)
	for part := range 4 {
		l.read = 0
		l.sweep(t)
		if l.read > 12 {
			t.Errorf("part %d reads %d blocks of 40, want about 10", part, l.read)
		}
	}
	if n := len(l.sightings); n != 40 || l.round.blocks != 0 {
		t.Errorf("after a round there are %d sightings, and the next one has seen %d blocks; want 40 and none", n, l.round.blocks)
	}
}

// The brake counts all orphans of a pool, even if each part of a round sees only a few.
func TestRound_BrakesOnAllParts(t *testing.T) {
	t.Parallel()
	l := newSlow(t)
	for i, b := range l.blocks {
		if i%3 == 0 { // four in a part, 14 in all
			l.states[b.Holder.Claim] = Orphaned
		}
	}
	for look := range 12 {
		if got := l.sweep(t); len(got) != 0 {
			t.Errorf("look %d suspects %v, though the pool has more orphans than a round takes up", look, got)
		}
	}
	if l.warnings != 1 {
		t.Errorf("%d warnings, want one", l.warnings)
	}
}

// An orphan is suspected by the second round that sees it, wherever its block lies.
func TestRound_FindsEveryOrphan(t *testing.T) {
	t.Parallel()
	for _, at := range []int{0, 9, 10, 11, 20, 39} {
		l := newSlow(t)
		claim := l.blocks[at].Holder.Claim
		l.states[claim] = Orphaned
		var suspected []ledger.ClaimID
		for look := range 8 {
			if got := l.sweep(t); len(got) > 0 && look < 7 {
				t.Errorf("block %d: look %d suspects %v before the end of the second round", at, look, got)
			}
			suspected = append(suspected, l.suspected...)
		}
		if !slices.Equal(suspected, []ledger.ClaimID{claim}) {
			t.Errorf("block %d: two rounds suspect %v, want it once", at, suspected)
		}
	}
}

// After a part has failed, the next part continues where it stopped: no block is counted twice, and none is left out.
func TestRound_GoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	l := newSlow(t)
	l.sweep(t)
	l.failAt = 5
	if err := l.look(t.Context()); err == nil {
		t.Fatal("a look at a ledger that cannot be read succeeds")
	}
	for range 10 {
		if l.round.blocks == 0 {
			break
		}
		l.sweep(t)
	}
	if l.Sweeper.blocks != 40 {
		t.Errorf("the round has seen %d blocks, want each of 40 once", l.Sweeper.blocks)
	}
}
