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

// pathLooks is the pause between two looks for paths of workspaces that are gone.
const pathLooks = 10 * time.Second

// paths frees the paths of workspaces that are gone. When kcp removes an endpoint, or a list leaves workspaces out,
// they keep their paths, and no event tells when one of them goes. Another one that is made at such a path shows the
// same path, which names neither. So as long as there is such a workspace, paths lists the bound ones. Lists that do
// not have the workspace for a minute prove that it is gone. Every replica does so, so that it can answer CREATEs as
// soon as it leads.
type paths struct {
	directory *directory.Directory
	oracle    interface {
		Census(ctx context.Context) (c live.Census, ok bool, err error)
	}
	clock clock.WithTicker

	lacked map[ledger.ClusterName]lack // the workspaces that the last list did not have
}

// lack is that of a workspace in lists.
type lack struct {
	shown time.Time // when it showed its path last
	since time.Time // when a list did not have it first
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

// look lists who is bound, if a workspace is out of sight whose path another shows.
func (p *paths) look(ctx context.Context) error {
	missing := p.contested()
	if len(missing) == 0 {
		p.lacked = nil
		return nil
	}
	census, whole, err := p.oracle.Census(ctx)
	if err != nil || !whole || census.Endpoints == 0 {
		return err // it says nothing of those that were lacked before
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
			// Its shard may be away, and not have entered itself in an endpoint slice that was made since.
		case now.Sub(known.since) >= live.Absence:
			log.FromContext(ctx).Info("a workspace that is bound nowhere gives up its path", "cluster", cluster)
			p.directory.Forget(cluster)
		default:
			p.lacked[cluster] = known
		}
	}
	return nil
}

// contested are the workspaces out of sight whose path another shows, and when each showed it last.
func (p *paths) contested() map[ledger.ClusterName]time.Time {
	found := map[ledger.ClusterName]time.Time{}
	for cluster, shown := range p.directory.OutOfSight() {
		if p.directory.Shares(cluster) {
			found[cluster] = shown
		}
	}
	return found
}
