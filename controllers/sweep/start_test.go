package sweep

import (
	"context"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator"
)

// timed notes when the blocks are listed, which every pass does once.
type timed struct {
	*scene
	lists []time.Time
}

func (s *timed) List(ctx context.Context, opts allocator.ListOptions) iter.Seq2[allocator.Block, error] {
	s.lists = append(s.lists, time.Now())
	return s.scene.List(ctx, opts)
}

// start runs the sweeper of a scene until the test says stop.
func start(t *testing.T, s *timed, departed <-chan allocator.ClusterName) (stop func()) {
	t.Helper()
	s.Ledger, s.Departed, s.Clock = s, departed, clock.RealClock{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Start(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestStart_AtOnceThenAtJitteredIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &timed{scene: newScene(t, 0)}
		began := time.Now()
		stop := start(t, s, nil)
		<-time.After(20 * time.Minute)
		stop()
		if len(s.lists) < 30 || !s.lists[0].Equal(began) {
			t.Fatalf("%d passes in 20 minutes, from %v; want one at once, at %v, and at least 30", len(s.lists), s.lists, began)
		}
		gaps := map[time.Duration]bool{}
		for i, at := range s.lists[1:] {
			gap := at.Sub(s.lists[i])
			if gap < 30*time.Second || gap > 36*time.Second {
				t.Errorf("pass %d came %v after the one before, want 30 s to 36 s", i+1, gap)
			}
			gaps[gap] = true
		}
		if len(gaps) == 1 {
			t.Error("the interval is not jittered")
		}
	})
}

func TestStart_LooksAtADepartedWorkspaceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &timed{scene: newScene(t, 30)}
		s.blocks[7].Holder.Cluster = "gone"
		departed := make(chan allocator.ClusterName)
		stop := start(t, s, departed)
		before := time.Now()
		departed <- "gone"
		synctest.Wait()
		if now := time.Now(); !now.Equal(before) {
			t.Errorf("that took %v", now.Sub(before))
		}
		stop()
		if !slices.Equal(s.suspected, []allocator.ClaimID{"7"}) {
			t.Errorf("suspected %v, want 7", s.suspected)
		}
	})
}

func TestStart_OnTheLeaderOnly(t *testing.T) {
	var sweeper manager.LeaderElectionRunnable = New(Options{})
	if !sweeper.NeedLeaderElection() {
		t.Error("every replica sweeps")
	}
}
