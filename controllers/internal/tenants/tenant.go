package tenants

import (
	"context"
	"net/http"
	"reflect"
	"sync"

	kcpkey "github.com/kcp-dev/apimachinery/v2/pkg/cache"
	"github.com/kcp-dev/logicalcluster/v3"
	kcpcache "github.com/kcp-dev/multicluster-provider/pkg/cache"
	"github.com/kcp-dev/multicluster-provider/pkg/events/recorder"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// tenant is the cluster of a workspace, as an endpoint shows it. There may be thousands, so a tenant keeps little of
// its own, and shares the clients of the endpoint. Safe for concurrent use.
type tenant struct {
	name   multicluster.ClusterName
	cache  cache.Cache
	at     *endpoint
	ended  <-chan struct{}    // closed when the engagement has ended
	cancel context.CancelFunc // ends the engagement
	taken  bool               // the controllers have engaged it; engaged guards it
}

var _ cluster.Cluster = (*tenant)(nil)

// Endpoint returns the URL of the endpoint that shows the workspace, and the cache that all workspaces of the endpoint
// share.
func (t *tenant) Endpoint() (url string, shared kcpcache.WildcardCache) { return t.at.url, t.at.cache }

// GetCache implements cluster.Cluster.
func (t *tenant) GetCache() cache.Cache { return t.cache }

// Kept returns an object as the cache keeps it; nil if the cache does not show it. The object may be packed, and must
// not be changed. Get takes many times as long, because it unpacks a copy.
func (t *tenant) Kept(kind client.Object, key client.ObjectKey) (client.Object, error) {
	obj, shown, err := t.at.kept[reflect.TypeOf(kind)].GetByKey(kcpkey.ToClusterAwareKey(string(t.name),
		key.Namespace, key.Name))
	if err != nil || !shown {
		return nil, err
	}
	return obj.(client.Object), nil
}

// GetClient implements cluster.Cluster. The client reads from the cache.
func (t *tenant) GetClient() client.Client {
	return workspaceClient{Client: t.at.writer, reader: t.cache, name: t.name}
}

// GetAPIReader implements cluster.Cluster. The reader reads from the cache, too: see package live.
func (t *tenant) GetAPIReader() client.Reader { return t.cache }

// GetConfig implements cluster.Cluster.
func (t *tenant) GetConfig() *rest.Config {
	cfg := rest.CopyConfig(t.at.config)
	cfg.Host = t.at.url + "/clusters/" + string(t.name)
	return cfg
}

// GetHTTPClient implements cluster.Cluster. It returns the client of the endpoint.
func (t *tenant) GetHTTPClient() *http.Client { return t.at.http }

// GetScheme implements cluster.Cluster.
func (t *tenant) GetScheme() *runtime.Scheme { return t.at.opts.Scheme }

// GetFieldIndexer implements cluster.Cluster.
func (t *tenant) GetFieldIndexer() client.FieldIndexer { return t.cache }

// GetRESTMapper implements cluster.Cluster.
func (t *tenant) GetRESTMapper() meta.RESTMapper { return t.at.writer.RESTMapper() }

// GetEventRecorderFor implements cluster.Cluster.
//
// Deprecated: use GetEventRecorder.
func (t *tenant) GetEventRecorderFor(name string) record.EventRecorder {
	if events, ok := t.events(); ok {
		return events.GetEventRecorderFor(name)
	}
	return &record.FakeRecorder{} // it records nothing
}

// GetEventRecorder implements cluster.Cluster. For a workspace that was disengaged, the recorder records nothing.
func (t *tenant) GetEventRecorder(name string) events.EventRecorder {
	if events, ok := t.events(); ok {
		return events.GetEventRecorder(name)
	}
	return &events.FakeRecorder{} // it records nothing
}

// events returns the workspace's recorders. They are made for the first event of the workspace, because few workspaces
// have events, and the recorders take two kilobytes. The second result is false if no event can be recorded.
func (t *tenant) events() (recorder.EventRecorderGetter, bool) {
	select {
	case <-t.ended:
		return nil, false // the recorders may be stopped already, and nothing would stop new ones
	default:
	}
	made, err := t.at.recorders.GetProvider(t.at.config, logicalcluster.Name(t.name))
	if err != nil {
		t.at.logger.Error(err, "the workspace's events cannot be recorded", "cluster", t.name)
		return nil, false
	}
	return made, true
}

// Start implements cluster.Cluster. There is nothing to start.
func (t *tenant) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// engaged has the workspaces that are engaged, or about to be. The zero value has none; safe for concurrent use.
type engaged struct {
	mu      sync.RWMutex
	tenants map[multicluster.ClusterName]*tenant
}

// tenant returns a workspace that is engaged, or about to be; nil if it is neither.
func (e *engaged) tenant(name multicluster.ClusterName) *tenant {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.tenants[name]
}

func (e *engaged) add(name multicluster.ClusterName, t *tenant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tenants == nil {
		e.tenants = map[multicluster.ClusterName]*tenant{}
	}
	e.tenants[name] = t
}

// take notes that the controllers have engaged a workspace.
func (e *engaged) take(t *tenant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.taken = true
}

// taken reports whether the controllers have engaged a workspace.
func (e *engaged) taken(name multicluster.ClusterName) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	t := e.tenants[name]
	return t != nil && t.taken
}

// remove ends an engagement, and returns its tenant; nil if there is none. It forgets the tenant first, so that a
// component that sees the end does not find the workspace engaged.
func (e *engaged) remove(name multicluster.ClusterName) *tenant {
	e.mu.Lock()
	t := e.tenants[name]
	delete(e.tenants, name)
	e.mu.Unlock()
	if t != nil {
		t.cancel()
	}
	return t
}

// at lists the workspaces that are engaged through an endpoint.
func (e *engaged) at(from *endpoint) []multicluster.ClusterName {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var names []multicluster.ClusterName
	for name, t := range e.tenants {
		if t.at == from {
			names = append(names, name)
		}
	}
	return names
}
