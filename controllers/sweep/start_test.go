package sweep

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// start runs the sweeper of a scene until the test says stop.
func start(t *testing.T, s *scene) (stop func()) {
	t.Helper()
	s.Clock = clock.RealClock{}
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

func TestStart_SweepsAtOnceThenAtJitteredIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 0)
		began := time.Now()
		stop := start(t, s)
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

// Workspaces that leave together cost one read of the ledger, which comes a second later at the latest.
func TestStart_ReadsTheLedgerOnceForManyDepartures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 500*20+1)
		for i := range s.blocks[1:] {
			s.blocks[i+1].Holder.Cluster = ledger.ClusterName(fmt.Sprint("gone-", i/20))
		}
		s.pools = []ledger.Pool{
			{ID: "left", Cluster: "gone-7", State: ledger.PoolOpen}, {ID: "stays", Cluster: "w", State: ledger.PoolOpen},
			{ID: "child", Cluster: "gone-7", State: ledger.PoolOpen, Parent: "stays"}, {ID: "drains", Cluster: "gone-7", State: ledger.PoolDraining},
		}
		stop := start(t, s)
		synctest.Wait()
		<-time.After(2 * time.Second)
		before := len(s.lists)
		for i := range 500 {
			s.Departed(ledger.ClusterName(fmt.Sprint("gone-", i)))
		}
		<-time.After(gathering)
		synctest.Wait()
		if reads := len(s.lists) - before; reads != 1 {
			t.Errorf("500 workspaces that depart cost %d reads of the ledger, want 1", reads)
		}
		stop()
		if len(s.suspected) != 500*20+1 || s.suspected[0] != "left" || slices.Contains(s.suspected, "0") {
			t.Errorf("%d are suspected, first %v; want the 10,000 blocks of those who departed and the pool left", len(s.suspected), s.suspected[:1])
		}
	})
}

// large is a ledger that takes two seconds to read.
type large struct {
	*scene
	suspected map[ledger.ClaimID]time.Time
}

func (l *large) List(ctx context.Context, opts allocator.ListOptions) iter.Seq2[ledger.Block, error] {
	<-time.After(2 * time.Second)
	return l.scene.List(ctx, opts)
}

func (l *large) Suspect(h ledger.Holder) { l.suspected[h.Claim] = time.Now() }

// If workspaces leave one after another, and the ledger takes long to read, one read serves many of them. No workspace
// waits longer than a minute and the time of a read.
func TestStart_BoundsTheReadsForAStreamOfDepartures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leaving = 1000
		s := &large{newScene(t, leaving), map[ledger.ClaimID]time.Time{}}
		for i := range s.blocks {
			s.blocks[i].Holder.Cluster = ledger.ClusterName(fmt.Sprint("w", i))
		}
		s.Interval = time.Hour
		s.Ledger.Blocks, s.Releases = s, s
		stop := start(t, s.scene)
		<-time.After(10 * time.Second)
		before := len(s.lists)
		left := map[ledger.ClaimID]time.Time{}
		for i := range leaving {
			left[s.blocks[i].Holder.Claim] = time.Now()
			s.Departed(s.blocks[i].Holder.Cluster)
			<-time.After(1500 * time.Millisecond)
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		stop()
		if reads, most := len(s.lists)-before, 1500/60+2; reads > most {
			t.Errorf("1,000 departures in 25 minutes cost %d reads of the ledger, want at most %d", reads, most)
		}
		for claim, at := range left {
			if took := s.suspected[claim].Sub(at); took < 0 || took > patience+5*time.Second {
				t.Fatalf("claim %s is suspected %s after its workspace left, want a minute at most", claim, took)
			}
		}
	})
}

// shaky is a ledger whose next reads fail; fails says how many.
type shaky struct {
	*scene
	fails int
}

func (l *shaky) List(ctx context.Context, opts allocator.ListOptions) iter.Seq2[ledger.Block, error] {
	all := l.scene.List(ctx, opts)
	if l.fails == 0 {
		return all
	}
	l.fails--
	return func(yield func(ledger.Block, error) bool) { yield(ledger.Block{}, ledger.ErrUnavailable) }
}

// Workspaces that leave while the ledger cannot be read are looked at once the ledger is back.
func TestStart_LooksAtDeparturesOnceTheLedgerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shaky{scene: newScene(t, 2)}
		s.blocks[1].Holder.Cluster = "stays"
		s.Interval, s.Ledger.Blocks = time.Hour, s
		stop := start(t, s.scene)
		<-time.After(2 * time.Second)
		s.fails = 2
		s.Departed("w")
		<-time.After(4 * gathering)
		synctest.Wait()
		stop()
		if !slices.Equal(s.suspected, []ledger.ClaimID{"0"}) {
			t.Errorf("%v are suspected, want 0, whose workspace has left", s.suspected)
		}
	})
}

// A standby collects no departures. When it begins to lead, it reads the ledger for its first round, and not once more
// for earlier departures.
func TestStart_IgnoresEarlierDepartures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 3)
		for i := range 5000 {
			s.Departed(ledger.ClusterName(fmt.Sprint("gone-", i)))
		}
		if n := len(s.departures.clusters); n != 0 {
			t.Errorf("%d departures were collected while the sweeper did not run, want 0", n)
		}
		stop := start(t, s)
		<-time.After(5 * gathering)
		synctest.Wait()
		stop()
		if len(s.lists) != 1 {
			t.Errorf("a sweeper that begins to run reads the ledger %d times, want once", len(s.lists))
		}
	})
}

func TestStart_RunsOnTheLeaderOnly(t *testing.T) {
	var sweeper manager.LeaderElectionRunnable = New(Options{})
	if !sweeper.NeedLeaderElection() {
		t.Error("every replica sweeps")
	}
}
