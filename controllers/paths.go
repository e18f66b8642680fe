package controllers

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// pathLooks is the time between two looks for workspaces that are gone and keep their path.
const pathLooks = 10 * time.Second

// paths frees the paths of workspaces that are gone. When kcp removes an endpoint, or a list leaves workspaces out,
// these workspaces keep their paths, and no event tells when one of them is deleted. If another workspace is made at
// the same path, both show the path, and it names neither. So while there is such a pair, paths lists the bound
// workspaces. If the lists lack the one that is out of sight for a minute, it is gone. Every replica does so, so that
// it can answer CREATEs as soon as it leads.
type paths struct {
	directory *directory.Directory
	oracle    interface {
		Census(ctx context.Context) (c live.Census, ok bool, err error)
	}
	clock clock.WithTicker

	lacked map[ledger.ClusterName]lack // the contested workspaces that the last list did not have
}

// lack says since when lists lack a workspace.
type lack struct {
	shown time.Time // when it showed its path last
	since time.Time // when a list first lacked it
}

var _ manager.LeaderElectionRunnable = (*paths)(nil)

// NeedLeaderElection says that every replica looks.
func (p *paths) NeedLeaderElection() bool { return false }

// Start looks until the context ends.
func (p *paths) Start(ctx context.Context) error {
	ticker := p.clock.NewTicker(pathLooks)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			if err := p.look(ctx); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "look for workspaces that are gone and keep their path")
			}
		}
	}
}

// look lists the bound workspaces if one is out of sight, and another one shows its path.
func (p *paths) look(ctx context.Context) error {
	missing := p.contested()
	if len(missing) == 0 {
		p.lacked = nil
		return nil
	}
	census, whole, err := p.oracle.Census(ctx)
	if err != nil || !whole || census.Endpoints == 0 {
		return err // a list that is not whole says nothing of them
	}
	before := p.lacked
	p.lacked = map[ledger.ClusterName]lack{}
	now := p.clock.Now()
	for cluster, shown := range missing {
		known, ok := before[cluster]
		if !ok || !known.shown.Equal(shown) {
			known = lack{shown: shown, since: now}
		}
		switch {
		case census.Bound[cluster]:
		case !shown.After(census.Since.Add(time.Second)):
			// Its shard may be away, and may be missing from an endpoint slice that was made after its binding.
		case now.Sub(known.since) >= live.Absence:
			log.FromContext(ctx).Info("a workspace that is bound nowhere gives up its path", "cluster", cluster)
			p.directory.Forget(cluster)
		default:
			p.lacked[cluster] = known
		}
	}
	return nil
}

// contested returns the workspaces out of sight whose path another workspace shows, and when each showed it last.
func (p *paths) contested() map[ledger.ClusterName]time.Time {
	found := map[ledger.ClusterName]time.Time{}
	for cluster, shown := range p.directory.OutOfSight() {
		if p.directory.Shares(cluster) {
			found[cluster] = shown
		}
	}
	return found
}
