package controllers

import (
	"github.com/go-logr/logr"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/claim"
	"github.com/kcp-ipam/ipam/controllers/derived"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/pool"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/controllers/release"
	"github.com/kcp-ipam/ipam/controllers/slice"
	"github.com/kcp-ipam/ipam/controllers/sweep"
)

// watcher tells the controllers which workspaces come and go.
type watcher struct {
	adopter  *recover.Adopter
	releases *release.Controller
	claims   *claim.Reconciler
	pools    *pool.Reconciler
	derived  *derived.Controller
	slices   *slice.Controller
	sweeper  *sweep.Sweeper
	logger   logr.Logger
}

// Arrived implements directory.Observer.
func (w *watcher) Arrived(cluster ledger.ClusterName) {
	w.releases.Arrived(cluster)
	w.claims.Arrived(cluster)
	w.pools.Requeue(cluster)
	w.slices.Changed(cluster)
}

// Named implements directory.Observer.
func (w *watcher) Named(workspace directory.Workspace) {
	w.adopter.Named(workspace)
	w.claims.Named(workspace)
	w.pools.Named(workspace)
	w.slices.Changed(workspace.Cluster)
}

// Contested implements directory.Observer. Either somebody forges a path, or a workspace was deleted and created again,
// and the former one is still known.
func (w *watcher) Contested(path string, clusters []ledger.ClusterName) {
	w.logger.Info("a path does not name these workspaces: others show it, too", "path", path, "clusters", clusters)
}

// Leaving implements directory.Observer.
func (w *watcher) Leaving(cluster ledger.ClusterName) { w.pools.Requeue(cluster) }

// Departed implements directory.Observer.
func (w *watcher) Departed(cluster ledger.ClusterName) {
	w.releases.Departed(cluster)
	w.claims.Departed(cluster)
	w.derived.Left(cluster)
	w.slices.Changed(cluster)
	w.sweeper.Departed(cluster)
}
