package sweep

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
)

// A sweep of a large ledger comes less often, and the longest pause is that of five minutes.
func TestPause(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ interval, took, want time.Duration }{
		"small ledger":     {30 * time.Second, 100 * time.Millisecond, 30 * time.Second},
		"large ledger":     {30 * time.Second, 2 * time.Second, 100 * time.Second},
		"largest ledger":   {30 * time.Second, 20 * time.Second, 5 * time.Minute},
		"rare by the flag": {time.Hour, 20 * time.Second, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, 0)
			s.Interval, s.took = tt.interval, tt.took
			if got := s.pause(); got < tt.want || got > tt.want*6/5 {
				t.Errorf("pause = %s after a pass of %s, want %s and up to a fifth more", got, tt.took, tt.want)
			}
		})
	}
}

// Each pass notes how long it took.
func TestSweep_NotesHowLongItTook(t *testing.T) {
	t.Parallel()
	s := newScene(t, 3)
	s.Ledger = slow{s}
	s.sweep(t)
	if want := 3 * time.Second; s.took != want {
		t.Errorf("took = %s after a pass of %s", s.took, want)
	}
}

// slow is a ledger in which each block takes a second to read.
type slow struct{ *scene }

func (l slow) List(ctx context.Context, opts allocator.ListOptions) iter.Seq2[allocator.Block, error] {
	return func(yield func(allocator.Block, error) bool) {
		for b, err := range l.scene.List(ctx, opts) {
			l.clock.Step(time.Second)
			if !yield(b, err) {
				return
			}
		}
	}
}
