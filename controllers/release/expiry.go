package release

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// longest is how long Expiry waits at most until it looks at the clock: what it waits for is a time
// of day, which may be set.
const longest = time.Minute

// Leases is what the ledger knows of the leases of retained blocks.
type Leases interface {
	// Due names the holders whose leases are over, and says when the next one will be.
	Due(now time.Time) (due []ledger.Holder, next time.Time)
	// News is sent to when that may be sooner.
	News() <-chan struct{}
}

// Expiry hints at retained blocks whose leases are over, when they are. It waits for the next end
// alone, however many there are. A manager runs it, on the leader; one that begins to lead hints at
// all that have ended meanwhile.
type Expiry struct {
	Leases Leases
	// Suspect settles a hint, or leaves the block as it is.
	Suspect func(ledger.Holder)
	// Clock defaults to the real one.
	Clock clock.WithTicker
}

var _ manager.LeaderElectionRunnable = (*Expiry)(nil)

// NeedLeaderElection says that the leader alone releases.
func (e *Expiry) NeedLeaderElection() bool { return true }

// Start hints until the context ends.
func (e *Expiry) Start(ctx context.Context) error {
	if e.Clock == nil {
		e.Clock = clock.RealClock{}
	}
	for e.wait(ctx, e.hint(ctx)) {
	}
	return nil
}

// hint hints at what is due, and says how long nothing will be.
func (e *Expiry) hint(ctx context.Context) time.Duration {
	now := e.Clock.Now()
	due, next := e.Leases.Due(now)
	for _, h := range due {
		log.FromContext(ctx).V(1).Info("a lease is over", "cluster", h.Cluster, "claim", h.Namespace+"/"+h.Name)
		e.Suspect(h)
	}
	if next.IsZero() {
		return longest
	}
	return min(next.Sub(now), longest)
}

// wait waits, or until there is news. It reports false if the context has ended.
func (e *Expiry) wait(ctx context.Context, d time.Duration) bool {
	timer := e.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
	case <-e.Leases.News():
	}
	return true
}
