package release

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// longest is how long Expiry waits at most before it reads the clock again: a lease ends at a time of day, and the
// clock may be set.
const longest = time.Minute

// Leases are the leases of retained blocks, as the ledger has them.
type Leases interface {
	// Due names the holders whose leases are over, and says when the next one will be.
	Due(now time.Time) (due []ledger.Holder, next time.Time)
	// News returns a channel that gets a value when the next lease may end sooner.
	News() <-chan struct{}
}

// Expiry hints at each retained block when its lease is over. It waits only for the lease that ends next, however many
// there are. A manager runs it, on the leader. A new leader begins with all leases that are over.
type Expiry struct {
	Leases Leases
	// Suspect hints that the lease of this holder's block is over.
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

// hint hints at all blocks whose leases are over, and returns the time until the next lease ends, at most longest.
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

// wait waits for d, or until there is news. It reports false if the context has ended.
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
