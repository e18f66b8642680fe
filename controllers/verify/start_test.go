package verify

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// slow is a World that takes its time.
type slow struct {
	*scene
	clock *clocktesting.FakeClock
	takes time.Duration // for each kind
}

func (w slow) Each(ctx context.Context, list client.ObjectList, visit func(ledger.ClusterName, client.Object)) error {
	w.clock.Step(w.takes)
	return w.scene.Each(ctx, list, visit)
}

// After a verification that took long it is longer until the next one.
func TestStart_RestsAfterAllThatWork(t *testing.T) {
	s := newScene(t)
	clock := clocktesting.NewFakeClock(time.Now())
	v := New(Options{Ledger: s, World: slow{s, clock, 5 * time.Second}, Clock: clock})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- v.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	waits := func() {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return clock.HasWaiters(), nil })
		if err != nil {
			t.Fatal("the verifier does not wait for its next verification")
		}
	}
	waits()
	clock.Step(12 * time.Minute) // 10 minutes, jittered
	waits()
	if s.looks != 1 {
		t.Fatalf("the verifier has looked %d times after 12 minutes, want once", s.looks)
	}
	clock.Step(49 * time.Minute) // 15 s are a two-hundredth of 50 minutes
	if !clock.HasWaiters() {
		t.Fatal("the verifier does not rest two hundred times as long as a verification takes")
	}
	clock.Step(12 * time.Minute)
	waits()
	if s.looks != 2 {
		t.Errorf("the verifier has looked %d times, want twice", s.looks)
	}
}

func TestRest(t *testing.T) {
	for worked, want := range map[time.Duration]time.Duration{
		0:                10 * time.Minute,
		3 * time.Second:  10 * time.Minute,
		20 * time.Second: 4000 * time.Second,
		time.Hour:        4 * time.Hour,
	} {
		v := New(Options{Interval: 10 * time.Minute})
		v.worked = worked
		if got := v.rest(); got != want {
			t.Errorf("after a verification of %s the verifier rests %s, want %s", worked, got, want)
		}
	}
	rare := New(Options{Interval: 6 * time.Hour})
	rare.worked = time.Hour
	if got := rare.rest(); got != 6*time.Hour {
		t.Errorf("an interval of 6 h becomes %s", got)
	}
}

// The pause before a second look is no work.
func TestRest_WithoutThePause(t *testing.T) {
	s := newScene(t)
	delete(s.records, "a")
	v := New(Options{Ledger: s, World: s, Pause: 100 * time.Millisecond})
	begun := time.Now()
	if _, err := v.Verify(t.Context()); err != nil || s.looks != 2 {
		t.Fatalf("the verifier has looked %d times, want twice; %v", s.looks, err)
	}
	if most := time.Since(begun) - v.Pause; v.worked <= 0 || v.worked > most {
		t.Errorf("the verifier has worked %s, want no more than %s", v.worked, most)
	}
}
