package feed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	kcpcache "github.com/kcp-dev/multicluster-provider/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// Feed knows the engaged workspaces and the watches. Add it to the manager as a runnable. Safe for concurrent use.
type Feed struct {
	// Reengage is called if a new watch could not be opened on a workspace. It must disengage the workspace, and engage it
	// again. Required.
	Reengage func(multicluster.ClusterName)
	// Changed is called when a workspace is engaged, and when it is disengaged. It must not block. Default: no call.
	Changed func(multicluster.ClusterName)

	mu         sync.Mutex
	workspaces map[multicluster.ClusterName]*workspace
	watches    []*watch
}

// workspace is an engaged workspace, until its context ends.
type workspace struct {
	ctx      context.Context //nolint:containedctx // it is the engagement
	name     multicluster.ClusterName
	cluster  cluster.Cluster
	endpoint string // its URL
	cache    kcpcache.WildcardCache
}

// Shown is the cluster of an engaged workspace. It tells which endpoint shows the workspace, and has the cache that all
// workspaces of that endpoint share.
type Shown interface {
	cluster.Cluster
	Endpoint() (url string, shared kcpcache.WildcardCache)
}

// Engage watches the workspace until ctx ends. If the workspace is engaged again, with a new context, all its objects
// are shown to the handlers again.
func (f *Feed) Engage(ctx context.Context, name multicluster.ClusterName, cl cluster.Cluster) error {
	shown, ok := cl.(Shown)
	if !ok {
		return fmt.Errorf("the cluster of workspace %s is a %T, which does not tell its endpoint", name, cl)
	}
	w := &workspace{ctx: ctx, name: name, cluster: cl}
	w.endpoint, w.cache = shown.Endpoint()
	watches := f.enter(w)
	f.tell(name)
	context.AfterFunc(ctx, func() { f.leave(w) })
	for _, watch := range watches {
		if err := watch.open(w); err != nil {
			return fmt.Errorf("watch workspace %s: %w", name, err)
		}
	}
	return nil
}

// enter notes a workspace, and returns the watches. A watch that is added later finds the workspace by itself.
func (f *Feed) enter(w *workspace) []*watch {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.workspaces == nil {
		f.workspaces = map[multicluster.ClusterName]*workspace{}
	}
	f.workspaces[w.name] = w
	return slices.Clone(f.watches)
}

func (f *Feed) leave(w *workspace) {
	f.mu.Lock()
	if f.workspaces[w.name] == w {
		delete(f.workspaces, w.name)
	}
	watches := slices.Clone(f.watches)
	f.mu.Unlock()
	for _, watch := range watches {
		watch.close(w)
	}
	f.tell(w.name)
}

func (f *Feed) tell(name multicluster.ClusterName) {
	if f.Changed != nil {
		f.Changed(name)
	}
}

// add notes a watch, and returns the workspaces.
func (f *Feed) add(w *watch) []*workspace {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches = append(f.watches, w)
	return slices.Collect(maps.Values(f.workspaces))
}

// Start implements manager.Runnable. There is nothing to run.
func (f *Feed) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
