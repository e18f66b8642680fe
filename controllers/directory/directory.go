// Package directory knows the workspaces: which path names which logical
// cluster. It is fed by the APIBindings that the export's virtual workspace
// shows, whose annotations carry both.
package directory

import (
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/kcp-dev/sdk/apis/core"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/allocator"
)

// Workspace names a logical cluster both ways. Path is empty while it is not
// known: such a workspace is admitted by no list of consumers.
type Workspace struct {
	Cluster allocator.ClusterName
	Path    string
}

// Directory maps workspace paths to logical clusters and back. It is safe for
// concurrent use. It implements the provider's handlers.Handler.
type Directory struct {
	platform Workspace
	observer Observer

	mu       sync.RWMutex
	leaving  map[allocator.ClusterName]bool
	paths    map[allocator.ClusterName]string
	clusters map[string]allocator.ClusterName
}

// Observer is told who comes and goes. Its methods must not block.
type Observer interface {
	// Arrived: the workspace binds the export.
	Arrived(cluster allocator.ClusterName)
	// Named: the workspace's path is known now, or has changed.
	Named(workspace Workspace)
	// Leaving: the workspace's binding is being deleted, and with it all that
	// the export has put there.
	Leaving(cluster allocator.ClusterName)
	// Departed: the workspace's last binding was seen to go, from the beginning of
	// its deletion to the end. That it is missing from a list says no such thing.
	Departed(cluster allocator.ClusterName)
}

// New makes a directory that knows the platform workspace.
func New(platform Workspace) *Directory {
	return &Directory{
		platform: platform,
		leaving:  map[allocator.ClusterName]bool{},
		paths:    map[allocator.ClusterName]string{platform.Cluster: platform.Path},
		clusters: map[string]allocator.ClusterName{platform.Path: platform.Cluster},
	}
}

// Observe names who is told from now on. Call it before the provider starts.
func (d *Directory) Observe(o Observer) { d.observer = o }

// Platform is the workspace that holds the export.
func (d *Directory) Platform() Workspace { return d.platform }

// Engaged is the name that the manager knows a logical cluster by: "" for the
// platform, which is its local cluster.
func (d *Directory) Engaged(cluster allocator.ClusterName) multicluster.ClusterName {
	if cluster == d.platform.Cluster {
		return ""
	}
	return multicluster.ClusterName(cluster)
}

// Ledger is the name that the ledger knows a manager's cluster by.
func (d *Directory) Ledger(engaged multicluster.ClusterName) allocator.ClusterName {
	if engaged == "" {
		return d.platform.Cluster
	}
	return allocator.ClusterName(engaged)
}

// Workspace describes a logical cluster, as far as it is known.
func (d *Directory) Workspace(cluster allocator.ClusterName) Workspace {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return Workspace{Cluster: cluster, Path: d.paths[cluster]}
}

// Find gives the workspace of a path.
func (d *Directory) Find(path string) (Workspace, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	cluster, ok := d.clusters[path]
	return Workspace{Cluster: cluster, Path: path}, ok
}

// Workspaces lists the workspaces whose path is known, in no order, without the
// platform.
func (d *Directory) Workspaces() []Workspace {
	d.mu.RLock()
	defer d.mu.RUnlock()
	list := make([]Workspace, 0, len(d.paths))
	for cluster, path := range d.paths {
		if cluster != d.platform.Cluster {
			list = append(list, Workspace{Cluster: cluster, Path: path})
		}
	}
	return list
}

// OnAdd learns a workspace from its binding.
func (d *Directory) OnAdd(binding client.Object) {
	d.learn(binding)
	if d.observer != nil {
		d.observer.Arrived(allocator.ClusterName(logicalcluster.From(binding)))
	}
}

// OnUpdate learns a workspace's new path, when it was renamed or had none yet.
func (d *Directory) OnUpdate(_, binding client.Object) {
	d.learn(binding)
}

// OnDelete forgets a workspace whose binding is gone.
func (d *Directory) OnDelete(binding client.Object) {
	cluster := allocator.ClusterName(logicalcluster.From(binding))
	d.mu.Lock()
	left := d.leaving[cluster]
	delete(d.leaving, cluster)
	if path, ok := d.paths[cluster]; ok {
		delete(d.paths, cluster)
		d.unname(path, cluster)
	}
	d.mu.Unlock()
	if left && d.observer != nil {
		d.observer.Departed(cluster)
	}
}

// Leaves reports whether the workspace is giving up the export.
func (d *Directory) Leaves(cluster allocator.ClusterName) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.leaving[cluster]
}

func (d *Directory) learn(binding client.Object) {
	cluster := allocator.ClusterName(logicalcluster.From(binding))
	if d.leave(cluster, !binding.GetDeletionTimestamp().IsZero()) && d.observer != nil {
		d.observer.Leaving(cluster)
	}
	path := binding.GetAnnotations()[core.LogicalClusterPathAnnotationKey]
	if path != "" && d.name(cluster, path) && d.observer != nil {
		d.observer.Named(Workspace{Cluster: cluster, Path: path})
	}
}

// leave notes whether the cluster is leaving, and reports whether it is now and
// was not before.
func (d *Directory) leave(cluster allocator.ClusterName, leaving bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.leaving[cluster]
	d.leaving[cluster] = leaving
	return leaving && !before
}

// name gives the cluster its path, and reports whether that is news.
func (d *Directory) name(cluster allocator.ClusterName, path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	old, ok := d.paths[cluster]
	if ok && old == path && d.clusters[path] == cluster {
		return false
	}
	if ok {
		d.unname(old, cluster)
	}
	d.paths[cluster] = path
	d.clusters[path] = cluster
	return true
}

// unname takes the path from the cluster, unless another workspace has it by now.
func (d *Directory) unname(path string, cluster allocator.ClusterName) {
	if d.clusters[path] == cluster {
		delete(d.clusters, path)
	}
}
