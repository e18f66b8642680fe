package feed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	kcpcache "github.com/kcp-dev/multicluster-provider/pkg/cache"
	"github.com/kcp-dev/multicluster-provider/pkg/events/recorder"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// Feed knows the engaged workspaces and the watches. It is to be given to the manager as
// a runnable, and NewCluster to the provider. The zero value is empty; safe for concurrent
// use.
type Feed struct {
	mu         sync.Mutex
	caches     map[string]kcpcache.WildcardCache // by the endpoint's URL
	workspaces map[multicluster.ClusterName]*workspace
	watches    []*watch
}

// workspace is one that is engaged, until its context ends.
type workspace struct {
	ctx      context.Context //nolint:containedctx // it is the engagement
	name     multicluster.ClusterName
	cluster  cluster.Cluster
	endpoint string // its URL
	cache    kcpcache.WildcardCache
}

// NewCluster makes a workspace's cluster as the provider does by itself, and notes the
// cache of its endpoint, which the cluster does not let out.
func (f *Feed) NewCluster(
	cfg *rest.Config, name logicalcluster.Name, cache kcpcache.WildcardCache,
	scheme *runtime.Scheme, events recorder.EventRecorderGetter,
) (*kcpcache.ScopedCluster, error) {
	f.mu.Lock()
	if f.caches == nil {
		f.caches = map[string]kcpcache.WildcardCache{}
	}
	f.caches[endpoint(cfg)] = cache
	f.mu.Unlock()
	return kcpcache.NewScopedCluster(cfg, name, cache, scheme, events)
}

// endpoint is the URL that the workspaces of an endpoint have in common.
func endpoint(cfg *rest.Config) string {
	url, _, _ := strings.Cut(cfg.Host, "/clusters/")
	return strings.TrimSuffix(url, "/")
}

// Engage has the workspace watched until ctx ends. One that is engaged anew, with a new
// context, is shown all that is there anew.
func (f *Feed) Engage(ctx context.Context, name multicluster.ClusterName, cl cluster.Cluster) error {
	w := &workspace{ctx: ctx, name: name, cluster: cl, endpoint: endpoint(cl.GetConfig())}
	watches, err := f.enter(w)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { f.leave(w) })
	for _, watch := range watches {
		if err := watch.open(w); err != nil {
			return fmt.Errorf("watch workspace %s: %w", name, err)
		}
	}
	return nil
}

// enter notes a workspace, and returns the watches that there are. Those that come later
// find it noted.
func (f *Feed) enter(w *workspace) ([]*watch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ok bool
	if w.cache, ok = f.caches[w.endpoint]; !ok {
		return nil, fmt.Errorf("workspace %s is of an endpoint that has no cache: %s", w.name, w.endpoint)
	}
	if f.workspaces == nil {
		f.workspaces = map[multicluster.ClusterName]*workspace{}
	}
	f.workspaces[w.name] = w
	return slices.Clone(f.watches), nil
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
}

// add notes a watch, and returns the workspaces that there are.
func (f *Feed) add(w *watch) []*workspace {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches = append(f.watches, w)
	return slices.Collect(maps.Values(f.workspaces))
}

// Start implements manager.Runnable. The feed works when it is called upon.
func (f *Feed) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
