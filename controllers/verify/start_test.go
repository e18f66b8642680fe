package verify

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
)

// slow is a World that takes its time.
type slow struct {
	*scene
	clock *clocktesting.FakeClock
	takes time.Duration // for each kind
}

func (w slow) Each(ctx context.Context, list client.ObjectList, visit func(allocator.ClusterName, client.Object)) error {
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
	clock.Step(16 * time.Minute) // 10 s are a hundredth of 16 minutes and 40 seconds
	if !clock.HasWaiters() {
		t.Fatal("the verifier does not rest a hundred times as long as a verification takes")
	}
	clock.Step(5 * time.Minute)
	waits()
	if s.looks != 2 {
		t.Errorf("the verifier has looked %d times, want twice", s.looks)
	}
}

func TestRest(t *testing.T) {
	v := New(Options{Interval: 10 * time.Minute, Pause: 5 * time.Second})
	for took, want := range map[time.Duration]time.Duration{
		0:                10 * time.Minute,
		11 * time.Second: 10 * time.Minute,
		25 * time.Second: 2000 * time.Second,
		time.Hour:        2 * time.Hour,
	} {
		if got := v.rest(took); got != want {
			t.Errorf("after a verification of %s the verifier rests %s, want %s", took, got, want)
		}
	}
	if rare := New(Options{Interval: 6 * time.Hour}); rare.rest(time.Hour) != 6*time.Hour {
		t.Errorf("an interval of 6 h becomes %s", rare.rest(time.Hour))
	}
}
