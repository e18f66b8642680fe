// Package directory knows the workspaces: which path names which logical
// cluster, and which of them the export serves. It is fed by the APIBindings
// that the export's virtual workspace shows, whose annotations carry path and
// cluster.
//
// The cluster is kcp's word. The path is, too, but users that can update the
// LogicalCluster of a workspace can change it there. So a workspace that leaves
// its path for one that another shows does not get that one. Of two that showed
// one path when they were first seen, nobody can tell which had it first: it
// names neither. The path of the platform is the platform's.
package directory

import (
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Workspace names a logical cluster both ways. Path is empty while it is not
// known: such a workspace is admitted by no list of consumers.
type Workspace struct {
	Cluster ledger.ClusterName
	Path    string
}

// Directory maps workspace paths to logical clusters and back, and tracks the
// APIBindings of each. It is safe for concurrent use.
type Directory struct {
	platform Workspace

	telling sync.Mutex // held while the observer is told of a change, from before that is made; taken before mu

	mu       sync.RWMutex
	observer Observer                        // nil: there is none yet
	departed map[ledger.ClusterName]struct{} // while there is no observer: those that it would have been told of
	bound    map[ledger.ClusterName]bindings
	paths    map[ledger.ClusterName]string    // that each shows
	shown    map[string][]ledger.ClusterName  // by whom, paths that are shown
	names    map[string]ledger.ClusterName    // the workspace that each path names
	last     map[ledger.ClusterName]time.Time // when each showed its path last

	hidden
}

// Observer is told which workspaces come and go. Its methods must not block.
type Observer interface {
	// Arrived: a binding serves the workspace from now on, and is not being deleted.
	// The work that was skipped while there was none has to be done now.
	Arrived(cluster ledger.ClusterName)
	// Named: the workspace's path is known now, or has changed.
	Named(workspace Workspace)
	// Contested: these workspaces show a path that others show, too, and does not name them. They are known by none.
	Contested(path string, clusters []ledger.ClusterName)
	// Leaving: the binding that serves the workspace is being deleted, and with it
	// all that the export has put there.
	Leaving(cluster ledger.ClusterName)
	// Departed: the binding that served the workspace was seen to go, from the
	// beginning of its deletion to the end, and no other serves it. That one is
	// missing from a list says no such thing. Another one that waits may serve
	// it soon; if that one goes, too, Departed is called again.
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

// Observe sets the observer, and tells it how all workspaces stand. Of those that departed before, it tells, too.
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

// standings returns the calls that tell the observer of all workspaces that are bound or have a path.
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

// Engaged returns the name that the manager knows a logical cluster by: "" for the
// platform, which is its local cluster. That of a tenant is the name of its cluster.
func (d *Directory) Engaged(cluster ledger.ClusterName) multicluster.ClusterName {
	if cluster.Cluster() == d.platform.Cluster {
		return ""
	}
	return multicluster.ClusterName(cluster)
}

// Ledger returns the name that the ledger knows a manager's cluster by.
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

// Contests reports whether a workspace shows a path that another shows, too, and that does not name it, so that its
// own path is not known. That costs it what lists admit by path, and nothing else.
func (d *Directory) Contests(cluster ledger.ClusterName) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	path, shows := d.paths[cluster]
	owner, _ := d.owner(path)
	return shows && owner != cluster
}

// Shares reports whether another workspace shows the path of this one, too, whichever it names.
func (d *Directory) Shares(cluster ledger.ClusterName) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return len(d.shown[d.paths[cluster]]) > 1
}

// Shows returns the path that a workspace shows, whichever it names; empty while it is not known.
func (d *Directory) Shows(cluster ledger.ClusterName) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.paths[cluster]
}

// Find gives the workspace of a path.
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

// show notes the path that a workspace shows, none if it is empty, and tells the
// observer what follows. telling is held.
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

// move notes that a workspace shows another path, and returns the calls that tell the observer: which workspace a path
// names from now on, and which are known by none.
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

// name settles which workspace a path names: the only one that shows it. If there are others, the one that it named
// keeps it, unless that is open: the former one shows it no more, or another has shown it since that one was first
// seen, and may have had it before.
func (d *Directory) name(path string, open bool) {
	switch shown := d.shown[path]; {
	case path == d.platform.Path:
	case len(shown) == 1:
		d.names[path] = shown[0]
	case len(shown) == 0 || open:
		delete(d.names, path)
	}
}

// changes returns the calls that tell the observer of a path that named a workspace before.
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
