// Package directory knows the workspaces: which path names which logical cluster, and which of them the export serves.
// It reads the APIBindings that the export's virtual workspace shows. Their annotations have path and cluster.
//
// kcp writes both. But a user who can update the LogicalCluster of a workspace can change the path there. So a
// workspace that changes its path does not get a path that another workspace shows. If two workspaces showed one path
// when they were first seen, nobody can tell which had it first, and the path names neither. The platform always keeps
// its path.
package directory

import (
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Workspace names a logical cluster by its ID and by its path. Path is empty while it is not known: no list of
// consumers admits such a workspace by its path.
type Workspace struct {
	Cluster ledger.ClusterName
	Path    string
}

// Directory maps workspace paths to logical clusters and back, and tracks the
// APIBindings of each. It is safe for concurrent use.
type Directory struct {
	platform Workspace

	telling sync.Mutex // held from before a change is made until the observer was told of it; taken before mu

	mu       sync.RWMutex
	observer Observer                        // nil: there is none yet
	departed map[ledger.ClusterName]struct{} // workspaces that departed while there was no observer
	bound    map[ledger.ClusterName]bindings
	paths    map[ledger.ClusterName]string    // the path that each workspace shows
	shown    map[string][]ledger.ClusterName  // the workspaces that show each path
	names    map[string]ledger.ClusterName    // the workspace that each path names
	last     map[ledger.ClusterName]time.Time // when each workspace last showed its path

	hidden
}

// Observer is told which workspaces come and go. Its methods must not block.
type Observer interface {
	// Arrived: a binding serves the workspace from now on, and is not being deleted. Do now the work that was skipped
	// while no binding served it.
	Arrived(cluster ledger.ClusterName)
	// Named: the workspace's path is known now, or has changed.
	Named(workspace Workspace)
	// Contested: these workspaces show a path that does not name them, because others show it, too. They have no known
	// path.
	Contested(path string, clusters []ledger.ClusterName)
	// Leaving: the binding that serves the workspace is being deleted. With it kcp deletes all objects of the export's
	// kinds there.
	Leaving(cluster ledger.ClusterName)
	// Departed: the binding that served the workspace was seen to be deleted, from the beginning of its deletion to the
	// end, and no other binding serves the workspace. A binding that is missing from a list is not enough. Another binding
	// that waits may soon serve the workspace. If that binding is deleted, too, Departed is called again.
	Departed(cluster ledger.ClusterName)
}

// New makes a directory that knows the platform workspace.
func New(platform Workspace) *Directory {
	return &Directory{
		platform: platform,
		bound:    map[ledger.ClusterName]bindings{},
		paths:    map[ledger.ClusterName]string{platform.Cluster: platform.Path},
		shown:    map[string][]ledger.ClusterName{platform.Path: {platform.Cluster}},
		names:    map[string]ledger.ClusterName{platform.Path: platform.Cluster},
		last:     map[ledger.ClusterName]time.Time{},
	}
}

// Observe sets the observer. It tells the observer how all workspaces are bound, and which have departed before.
func (d *Directory) Observe(o Observer) {
	d.telling.Lock()
	defer d.telling.Unlock()
	d.mu.Lock()
	d.observer = o
	told, departed := d.standings(), d.departed
	d.departed = nil
	d.mu.Unlock()
	for _, tell := range told {
		tell()
	}
	for cluster := range departed {
		o.Departed(cluster)
	}
}

// standings returns the calls that tell the observer of all workspaces that are bound or show a path.
func (d *Directory) standings() (told []func()) {
	for cluster, of := range d.bound {
		switch of.standing() {
		case served:
			told = append(told, func() { d.observer.Arrived(cluster) })
		case leaving:
			told = append(told, func() { d.observer.Leaving(cluster) })
		case unserved:
		}
	}
	for path := range d.shown {
		if path != d.platform.Path {
			told = append(told, d.changes(path, "")...)
		}
	}
	return told
}

// Platform returns the workspace that holds the export.
func (d *Directory) Platform() Workspace { return d.platform }

// Engaged returns the name by which the manager knows a logical cluster. The platform is its local cluster, "". A
// tenant has the name of its cluster.
func (d *Directory) Engaged(cluster ledger.ClusterName) multicluster.ClusterName {
	if cluster.Cluster() == d.platform.Cluster {
		return ""
	}
	return multicluster.ClusterName(cluster)
}

// Ledger returns the name by which the ledger knows a cluster of the manager.
func (d *Directory) Ledger(engaged multicluster.ClusterName) ledger.ClusterName {
	if engaged == "" {
		return d.platform.Cluster
	}
	return ledger.ClusterName(engaged)
}

// Workspace describes a logical cluster, as far as it is known.
func (d *Directory) Workspace(cluster ledger.ClusterName) Workspace {
	d.mu.RLock()
	defer d.mu.RUnlock()
	path := d.paths[cluster]
	if owner, ok := d.owner(path); !ok || owner != cluster {
		path = ""
	}
	return Workspace{Cluster: cluster, Path: path}
}

// Contests reports whether a workspace shows a path that names another workspace, or none. Then the workspace has no
// known path, and no list of consumers admits it by its path. It loses nothing else.
func (d *Directory) Contests(cluster ledger.ClusterName) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	path, shows := d.paths[cluster]
	owner, _ := d.owner(path)
	return shows && owner != cluster
}

// Shares reports whether another workspace shows the same path as this one, no matter which of them the path names.
func (d *Directory) Shares(cluster ledger.ClusterName) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return len(d.shown[d.paths[cluster]]) > 1
}

// Shows returns the path that a workspace shows, even if that path names another workspace; empty while none is known.
func (d *Directory) Shows(cluster ledger.ClusterName) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.paths[cluster]
}

// Find returns the workspace that a path names.
func (d *Directory) Find(path string) (Workspace, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	cluster, ok := d.owner(path)
	return Workspace{Cluster: cluster, Path: path}, ok
}

// Workspaces lists the workspaces whose path is known, in no order, without the
// platform.
func (d *Directory) Workspaces() []Workspace {
	d.mu.RLock()
	defer d.mu.RUnlock()
	list := make([]Workspace, 0, len(d.paths))
	for cluster, path := range d.paths {
		if owner, ok := d.owner(path); ok && owner == cluster && cluster != d.platform.Cluster {
			list = append(list, Workspace{Cluster: cluster, Path: path})
		}
	}
	return list
}

// show notes the path that a workspace shows, and tells the observer of the consequences. If path is empty, the
// workspace shows none any more. The caller holds telling.
func (d *Directory) show(cluster ledger.ClusterName, path string) {
	d.mu.Lock()
	before := d.paths[cluster]
	var told []func()
	if before != path && cluster != d.platform.Cluster {
		told = d.move(cluster, before, path)
	}
	if path != "" && cluster != d.platform.Cluster {
		d.last[cluster] = time.Now()
	}
	d.mu.Unlock()
	for _, tell := range told {
		tell()
	}
}

// move notes that a workspace shows another path. It returns the calls that tell the observer which workspace each of
// both paths names now, and which workspaces have no known path.
func (d *Directory) move(cluster ledger.ClusterName, from, to string) (told []func()) {
	left, _ := d.owner(from)
	named, _ := d.owner(to)
	d.shown[from] = slices.DeleteFunc(d.shown[from], func(c ledger.ClusterName) bool { return c == cluster })
	if len(d.shown[from]) == 0 {
		delete(d.shown, from)
	}
	delete(d.paths, cluster)
	delete(d.last, cluster)
	d.name(from, left == cluster)
	if to != "" {
		d.paths[cluster] = to
		d.shown[to] = append(d.shown[to], cluster)
		d.name(to, from == "")
	}
	if d.observer == nil {
		return nil
	}
	return append(d.changes(from, left), d.changes(to, named)...)
}

// name decides which workspace a path names. A path that only one workspace shows names that workspace. A path that
// several show goes on to name the workspace that it named before, if any. But if open is true, it names none of them:
// the workspace that it named does not show it any more, or a workspace that was just seen for the first time may have
// had the path before.
func (d *Directory) name(path string, open bool) {
	switch shown := d.shown[path]; {
	case path == d.platform.Path:
	case len(shown) == 1:
		d.names[path] = shown[0]
	case len(shown) == 0 || open:
		delete(d.names, path)
	}
}

// changes returns the calls that tell the observer which workspace a path names now. before is the workspace that the
// path named before.
func (d *Directory) changes(path string, before ledger.ClusterName) (told []func()) {
	now, ok := d.owner(path)
	if ok && now != before {
		told = append(told, func() { d.observer.Named(Workspace{Cluster: now, Path: path}) })
	}
	others := slices.DeleteFunc(slices.Clone(d.shown[path]), func(c ledger.ClusterName) bool {
		return ok && c == now
	})
	if len(others) > 0 {
		told = append(told, func() { d.observer.Contested(path, others) })
	}
	return told
}

// owner returns the workspace that a path names.
func (d *Directory) owner(path string) (cluster ledger.ClusterName, ok bool) {
	cluster, ok = d.names[path]
	return cluster, ok
}
