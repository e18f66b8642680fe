package sweep

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

const (
	// share is the least ratio of the time that a round lasts to the time of its work. No round lasts longer than the
	// constant longest, even if the ratio is smaller then.
	share   = 100
	longest = 10 * time.Minute
)

// Releases takes the hints at blocks that nobody seems to hold.
type Releases interface {
	Suspect(h ledger.Holder)
	// HasDeparted reports whether a workspace's binding was seen to go.
	HasDeparted(cluster ledger.ClusterName) bool
	// SawDeleted reports whether the deletion of a claim was seen, and the claim's block is not released yet.
	SawDeleted(claim ledger.ClaimID) bool
}

// Options configure a Sweeper. Ledger, Releases and World are required.
type Options struct {
	Ledger   views.Ledger
	Releases Releases
	World    World
	// Wake requeues a claim that has lost its record.
	Wake func(ledger.Holder)
	// Interval is the time between two looks, jittered by a fifth. A look is a glance at the blocks that have changed, and
	// a round or a part of one. A round whose work takes more than a hundredth of the interval is made in parts, one at
	// each interval, within ten minutes. Default 30 s.
	Interval time.Duration
	// MinAge is how old a block must be to be an orphan. Default 60 s.
	MinAge time.Duration
	// MaxFrees is how many orphans of one pool a round suspects at most. If a pool has more, the brake holds. Default 100.
	MaxFrees int
	// MaxShare is the same limit as a share of the pool's blocks. Even in a small pool it allows ten orphans. Default 0.1.
	MaxShare float64
	// Clock defaults to the real one.
	Clock clock.WithTicker
}

// Sweeper compares the ledger with the caches from time to time. A manager runs it, on the leader.
type Sweeper struct {
	Options
	round  *round
	parts  int // of the round
	blocks int // of the last round
	// recent are blocks that have changed, and were too young to judge at the last glance.
	recent map[ledger.Position]ledger.Block

	// sightings are the orphans of the last round, and those that glances saw during it, with their
	// revisions.
	sightings map[ledger.ClaimID]int64
	braked    map[ledger.PoolID]bool
	gone      map[ledger.PoolID]time.Time // root pools whose IPPool the last round did not see, and since when
	named     int                         // pools that the metrics of this round name

	departures departures
	rested     time.Time // from when on the ledger may be read for departures again
}

// Defaults are the values that New uses for fields that are zero.
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
	return &Sweeper{Options: opts, round: newRound(), parts: 1, recent: map[ledger.Position]ledger.Block{}}
}

var _ manager.LeaderElectionRunnable = (*Sweeper)(nil)

// NeedLeaderElection says that one replica sweeps.
func (s *Sweeper) NeedLeaderElection() bool { return true }

// Start sweeps until the context ends. The first look comes immediately, for events that were missed while no replica
// swept. Further looks come at intervals.
func (s *Sweeper) Start(ctx context.Context) error {
	news := s.departures.collect()
	s.sweep(ctx, s.look)
	timer, gathered := s.Clock.NewTimer(s.pause()), s.Clock.NewTimer(gathering)
	defer timer.Stop()
	defer gathered.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
			s.sweep(ctx, s.look)
			timer.Reset(s.pause())
		case <-news:
			// For a second, or so long that reads take no more than a hundredth of a processor.
			gathered.Reset(min(patience, max(gathering, s.rested.Sub(s.Clock.Now()))))
		case <-gathered.C():
			s.sweep(ctx, s.suspectDeparted)
		}
	}
}

// pause returns the time until the next look.
func (s *Sweeper) pause() time.Duration { return wait.Jitter(s.Interval, 0.2) }

func (s *Sweeper) sweep(ctx context.Context, what func(context.Context) error) {
	if err := what(ctx); err != nil && ctx.Err() == nil {
		failures.Inc()
		log.FromContext(ctx).Error(err, "sweep")
	}
}

// look makes a glance, and the next part of the round.
func (s *Sweeper) look(ctx context.Context) error {
	s.glance(ctx)
	return s.part(ctx)
}

// judge handles a block by what the caches show of its holder. It reports whether the block seems to be
// an orphan.
func (s *Sweeper) judge(ctx context.Context, b ledger.Block) (orphaned bool) {
	switch state := s.World.State(ctx, b); {
	case state == Held:
	case state == Unrecorded:
		s.Wake(b.Holder)
	case state == Away && s.Releases.HasDeparted(b.Holder.Cluster):
		s.Releases.Suspect(b.Holder)
	default:
		return !drains(s.Ledger.Pools, b)
	}
	return false
}

// drains reports whether a block is that of a child pool that drains. Such a block is freed with the last block inside
// the pool, and by no hint. Its IPPool may have gone long before, with its workspace or without its finalizer.
func drains(pools views.Pools, b ledger.Block) bool {
	child, ok := pools.Get(ledger.PoolID(b.Holder.Claim))
	return ok && b.Holder.Namespace == "" && child.State == ledger.PoolDraining
}

// young reports whether it is too early to judge a block.
func (s *Sweeper) young(b ledger.Block) bool {
	if promise.Young(b, s.Clock.Now()) {
		return true
	}
	return s.Clock.Since(b.BoundAt) < s.MinAge
}

// each calls visit for the blocks of the ledger after a position, as of one revision, until visit returns false. It
// leaves out cooling blocks, which have no holder, and blocks that cannot be read. all is false if visit returned
// false.
func (s *Sweeper) each(
	ctx context.Context, after ledger.Position, visit func(ledger.Block) bool,
) (all bool, err error) {
	for b, err := range s.Ledger.Blocks.List(ctx, allocator.ListOptions{After: after}) {
		if ledger.Unreadable(err) {
			log.FromContext(ctx).Error(err, "sweep: skip a block")
			continue
		}
		if err != nil {
			return false, fmt.Errorf("list blocks: %w", err)
		}
		if b.State != ledger.Cooling && !visit(b) { // one that cools has no holder, and is freed by itself
			return false, nil
		}
	}
	return true, nil
}
