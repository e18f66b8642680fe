package sweep

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/controllers/reservation"
)

const (
	// gathering is how long departures are gathered before the ledger is read for them all.
	gathering = time.Second
	// share is how many times as long as a pass the pause after it is at least, until that is longest.
	share   = 50
	longest = 5 * time.Minute
)

// Ledger is what a sweep reads.
type Ledger interface {
	List(ctx context.Context, opts allocator.ListOptions) iter.Seq2[allocator.Block, error]
	Pool(id allocator.PoolID) (allocator.Pool, bool)
	Pools() iter.Seq[allocator.Pool]
	Capacity(id allocator.PoolID) (allocator.Capacity, bool)
	Frozen(id allocator.PoolID) bool
}

// Releases takes the hints at blocks that nobody seems to hold.
type Releases interface {
	Suspect(h allocator.Holder)
	// HasDeparted reports whether a workspace's binding was seen to go.
	HasDeparted(cluster allocator.ClusterName) bool
}

// Options configure a Sweeper. Ledger, Releases and World are required.
type Options struct {
	Ledger   Ledger
	Releases Releases
	World    World
	// Wake has a claim looked at that has lost its record.
	Wake func(allocator.Holder)
	// Doubt has a claim compared with the ledger whose block is in dispute, or was.
	Doubt func(allocator.Holder)
	// Interval between two passes, jittered by a fifth. It is longer after a pass that took more than
	// a fiftieth of it, up to five minutes. Default 30 s.
	Interval time.Duration
	// MinAge is how old a block must be to be an orphan. Default 60 s.
	MinAge time.Duration
	// MaxFrees bounds the orphans of one pool that a pass takes up. Default 100.
	MaxFrees int
	// MaxShare bounds them as a share of the pool's blocks, where that is more
	// than a few. Default 0.1.
	MaxShare float64
	// Clock defaults to the real one.
	Clock clock.WithTicker
}

// Sweeper looks over the ledger from time to time. A manager runs it; only the
// leader sweeps.
type Sweeper struct {
	Options
	// sightings are the orphans of the pass before, at the revision they had.
	sightings map[allocator.ClaimID]int64
	braked    map[allocator.PoolID]bool
	disputed  map[allocator.Holder]bool // as of the pass before
	gone      map[allocator.PoolID]bool // root pools of which the pass before did not see the IPPool
	named     int                       // pools that the metrics of this pass name
	took      time.Duration             // the pass before

	departures departures
}

// Defaults are what New takes for what is zero.
func Defaults() Options {
	return Options{Interval: 30 * time.Second, MinAge: time.Minute, MaxFrees: 100, MaxShare: 0.1}
}

// New makes a Sweeper.
func New(opts Options) *Sweeper {
	usual := Defaults()
	opts.Interval = cmp.Or(opts.Interval, usual.Interval)
	opts.MinAge = cmp.Or(opts.MinAge, usual.MinAge)
	opts.MaxFrees = cmp.Or(opts.MaxFrees, usual.MaxFrees)
	opts.MaxShare = cmp.Or(opts.MaxShare, usual.MaxShare)
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	return &Sweeper{Options: opts, sightings: map[allocator.ClaimID]int64{}, braked: map[allocator.PoolID]bool{}}
}

var _ manager.LeaderElectionRunnable = (*Sweeper)(nil)

// NeedLeaderElection says that one replica sweeps.
func (s *Sweeper) NeedLeaderElection() bool { return true }

// Start sweeps until the context ends: at once, for what was missed while nobody
// did, and from then on at intervals.
func (s *Sweeper) Start(ctx context.Context) error {
	news := s.departures.collect()
	s.sweep(ctx, s.pass)
	timer, gathered := s.Clock.NewTimer(s.pause()), s.Clock.NewTimer(gathering)
	defer timer.Stop()
	defer gathered.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
			s.sweep(ctx, s.pass)
			timer.Reset(s.pause())
		case <-news:
			gathered.Reset(gathering)
		case <-gathered.C():
			s.sweep(ctx, s.suspectDeparted)
		}
	}
}

// Departed has the blocks and pools of a workspace looked at whose binding was seen to go, without
// waiting for the interval. On a replica that does not sweep it does nothing: the first pass of
// one that begins to sees to those who left before. It does not block.
func (s *Sweeper) Departed(cluster allocator.ClusterName) { s.departures.add(cluster) }

// pause is how long to wait for the next pass: the interval, or as much longer as it takes for a
// sweep of a large ledger to cost a fiftieth of a processor, up to longest.
func (s *Sweeper) pause() time.Duration {
	rest := min(max(s.Interval, share*s.took), max(s.Interval, longest))
	return wait.Jitter(rest, 0.2)
}

func (s *Sweeper) sweep(ctx context.Context, pass func(context.Context) error) {
	if err := pass(ctx); err != nil && ctx.Err() == nil {
		failures.Inc()
		log.FromContext(ctx).Error(err, "sweep")
	}
}

// suspectDeparted hints at all that the workspaces have which departed since the last time. The
// ledger is read once for all of them.
func (s *Sweeper) suspectDeparted(ctx context.Context) error {
	departed := s.departures.take()
	if len(departed) == 0 {
		return nil
	}
	for p := range s.Ledger.Pools() {
		if departed[p.Cluster] && p.Parent == "" && p.State == allocator.PoolOpen {
			s.Releases.Suspect(rootHolder(p))
		}
	}
	return s.each(ctx, func(b allocator.Block) {
		if departed[b.Holder.Cluster] {
			s.Releases.Suspect(b.Holder)
		}
	})
}

// pass looks at every block once.
func (s *Sweeper) pass(ctx context.Context) error {
	begun := s.Clock.Now()
	found := survey{
		sightings: map[allocator.ClaimID]int64{}, pools: map[allocator.PoolID]*census{}, disputed: map[allocator.Holder]bool{},
	}
	if err := s.each(ctx, func(b allocator.Block) { s.look(ctx, b, &found) }); err != nil {
		return err
	}
	orphans.Reset()
	braked.Reset()
	s.named = 0
	before := s.braked
	s.braked = map[allocator.PoolID]bool{}
	for id, pool := range found.pools {
		s.settle(ctx, id, pool, before[id])
	}
	s.sightings = found.sightings
	s.lookAtPools(ctx)
	s.arbitrate(found.disputed)
	lastPass.SetToCurrentTime()
	s.took = s.Clock.Since(begun)
	durations.Observe(s.took.Seconds())
	return nil
}

// survey is what one pass has found.
type survey struct {
	sightings map[allocator.ClaimID]int64
	pools     map[allocator.PoolID]*census
	disputed  map[allocator.Holder]bool
}

// census counts the blocks of one pool.
type census struct {
	blocks  int
	orphans []allocator.Holder // found twice
}

// look judges one block.
func (s *Sweeper) look(ctx context.Context, b allocator.Block, found *survey) {
	if reservation.Is(b.Holder.Claim) {
		// No claim has its UID, so nobody sees its holder. It is looked up at once, by name, and is no
		// orphan that the brake counts: a tenant makes as many as its requests fail.
		if !reservation.InFlight(b, s.Clock.Now()) {
			s.Releases.Suspect(b.Holder)
		}
		return
	}
	pool := found.pools[b.Pool]
	if pool == nil {
		pool = &census{}
		found.pools[b.Pool] = pool
	}
	pool.blocks++
	if b.State == allocator.Disputed {
		found.disputed[b.Holder] = true
	}
	if s.Clock.Since(b.BoundAt) < s.MinAge {
		return
	}
	switch state := s.World.State(ctx, b); {
	case state == Held:
	case state == Unrecorded:
		s.Wake(b.Holder)
	case state == Away && s.Releases.HasDeparted(b.Holder.Cluster):
		s.Releases.Suspect(b.Holder)
	default:
		if s.sightings[b.Holder.Claim] == b.Revision {
			pool.orphans = append(pool.orphans, b.Holder)
		}
		found.sightings[b.Holder.Claim] = b.Revision
	}
}

// arbitrate has the claims say which of their blocks are in dispute, and which are so
// no longer. Who is right is not for a program to tell.
func (s *Sweeper) arbitrate(disputed map[allocator.Holder]bool) {
	for holder := range disputed {
		s.Doubt(holder)
	}
	for holder := range s.disputed {
		if !disputed[holder] {
			s.Doubt(holder)
		}
	}
	s.disputed = disputed
	disputes.Set(float64(len(disputed)))
}

// each calls look for every block of the ledger that somebody has, as of one revision.
func (s *Sweeper) each(ctx context.Context, look func(allocator.Block)) error {
	for b, err := range s.Ledger.List(ctx, allocator.ListOptions{}) {
		if allocator.Unreadable(err) {
			log.FromContext(ctx).Error(err, "sweep: skip a block")
			continue
		}
		if err != nil {
			return fmt.Errorf("list blocks: %w", err)
		}
		if b.State != allocator.Cooling { // else it is nobody's, and is free by itself
			look(b)
		}
	}
	return nil
}
