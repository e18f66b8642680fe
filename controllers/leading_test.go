package controllers

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
)

// ledger notes when it is told that the lists are complete.
type ledger struct{ complete chan struct{} }

func (l ledger) Lead(ctx context.Context, complete <-chan struct{}) error {
	select {
	case <-complete:
		close(l.complete)
	case <-ctx.Done():
	}
	return nil
}

type queue struct{ length atomic.Int32 }

func (q *queue) Len() int { return int(q.length.Load()) }

// The lists of a new leader are complete when it has had time to collect the claims, no workspace is yet to show
// its own, and all were reconciled.
func TestLeading(t *testing.T) {
	t.Parallel()
	now, waiting := clocktesting.NewFakeClock(time.Unix(0, 0)), &queue{}
	waiting.length.Store(1)
	told := ledger{make(chan struct{})}
	var coming atomic.Bool
	l := &leading{ledger: told, claims: waiting, coming: coming.Load, clock: now}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Start(ctx) }()
	step := func(d time.Duration, queued int32, want bool) {
		t.Helper()
		waiting.length.Store(queued)
		ticking(t, now)
		now.Step(d)
		select {
		case <-told.complete:
			if !want {
				t.Fatalf("complete at %s with %d claims queued", now.Now(), queued)
			}
		case <-time.After(patience(want)):
			if want {
				t.Fatalf("not complete at %s with %d claims queued", now.Now(), queued)
			}
		}
	}
	step(filling-2*glance, 0, false)
	step(3*glance, 1, false)
	coming.Store(true)
	step(glance, 0, false)
	coming.Store(false)
	step(glance, 0, true)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Start = %v, want nil", err)
	}
}

// ticking waits until somebody waits for the clock.
func ticking(t *testing.T, c *clocktesting.FakeClock) {
	t.Helper()
	err := wait.PollUntilContextCancel(t.Context(), time.Millisecond, true, func(context.Context) (bool, error) {
		return c.HasWaiters(), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long to look for something that is to happen, or is not.
func patience(happens bool) time.Duration {
	if happens {
		return 10 * time.Second
	}
	return 50 * time.Millisecond
}
