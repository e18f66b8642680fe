package sweep

import (
	"context"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const (
	// gathering is how long departures are gathered before the ledger is read for them all.
	gathering = time.Second
	// patience is how long departures are gathered at most: longer than gathering, if the last read took long.
	patience = time.Minute
)

// Departed makes the sweeper look at the blocks and pools of a workspace before the interval is over. The workspace's
// binding was seen to go. On a replica that does not sweep, Departed does nothing: when a replica begins to sweep, its
// first round finds the workspaces that left before. Departed does not block.
func (s *Sweeper) Departed(cluster ledger.ClusterName) { s.departures.add(cluster) }

// suspectDeparted hints at all blocks and pools of the workspaces that departed since the last call. It reads the
// ledger once for all of them. If the read fails, the next call hints at these workspaces, too. Without a hint, a round
// would take the blocks of a workspace for orphans, once another binding serves the workspace.
func (s *Sweeper) suspectDeparted(ctx context.Context) error {
	departed := s.departures.take()
	if len(departed) == 0 {
		return nil
	}
	begun := s.Clock.Now()
	defer func() {
		now := s.Clock.Now()
		s.rested = now.Add(share * now.Sub(begun))
	}()
	for p := range s.Ledger.Pools.All() {
		if b, held := rangeOf(p); held && departed[b.Holder.Cluster] {
			s.Releases.Suspect(b.Holder)
		}
		if departed[p.Cluster] && p.Parent == "" && p.Derived == nil && p.State == ledger.PoolOpen {
			s.Releases.Suspect(rootHolder(p))
		}
	}
	_, err := s.each(ctx, ledger.Position{}, func(b ledger.Block) bool {
		if departed[b.Holder.Cluster] {
			s.Releases.Suspect(b.Holder)
		}
		return true
	})
	if err != nil {
		for cluster := range departed {
			s.departures.add(cluster)
		}
	}
	return err
}

// departures are the workspaces that departed since the sweeper last took them. Departures before the call of collect
// are ignored. Safe for concurrent use.
type departures struct {
	mu       sync.Mutex
	clusters map[ledger.ClusterName]bool
	news     chan struct{} // nil before collect
}

// collect begins to collect departures. The channel receives a value when the first departure comes after a take.
func (d *departures) collect() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clusters, d.news = map[ledger.ClusterName]bool{}, make(chan struct{}, 1)
	return d.news
}

func (d *departures) add(cluster ledger.ClusterName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.news == nil {
		return
	}
	if d.clusters[cluster] = true; len(d.clusters) > 1 {
		return // a notification is pending
	}
	select {
	case d.news <- struct{}{}:
	default:
	}
}

func (d *departures) take() map[ledger.ClusterName]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.clusters
	d.clusters = map[ledger.ClusterName]bool{}
	return taken
}
