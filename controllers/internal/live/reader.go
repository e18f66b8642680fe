package live

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Reader reads from the servers, and never from a cache. It is safe for concurrent use.
type Reader struct {
	opts   Options
	http   *http.Client
	mapper meta.RESTMapper

	endpoints fresh[view]
	identity  fresh[string] // the result of Replaced
	replaced  time.Time     // when the export last had another identity; only readIdentity uses it
	serves    freshEach[workspaceAt, bindings]
	listed    atomic.Pointer[[]string] // the URLs of the endpoints in the slice that was read last

	mu      sync.Mutex
	clients map[string]client.Client // by URL
}

// mostClients limits how many clients are kept: there may be very many workspaces.
const mostClients = 500

// Options configure a Reader. All fields but Slice, Path, Endpoint and Identity are required.
type Options struct {
	// Config reaches the platform workspace.
	Config *rest.Config
	// Slice is the name of the APIExportEndpointSlice there. Empty on a cluster without kcp: then there are no endpoints,
	// and nothing is known of other workspaces.
	Slice string
	// Platform is the platform's logical cluster.
	Platform ledger.ClusterName
	// Path is the path of the platform's workspace.
	Path string
	// Scheme knows our kinds and kcp's.
	Scheme *runtime.Scheme
	// Endpoint returns the endpoint that serves a workspace, as far as the caches show. Default: it returns none.
	Endpoint func(ledger.ClusterName) (url string, ok bool)
	// Identity returns the identity of the export whose tenants the ledger has. seen is the identity that the export has
	// now: a ledger without an identity stores it. Default: identities are not compared.
	Identity func(ctx context.Context, seen string) (string, error)
}

// NewReader makes a Reader. It sends nothing yet.
func NewReader(opts Options) (*Reader, error) {
	httpClient, err := rest.HTTPClientFor(opts.Config)
	if err != nil {
		return nil, fmt.Errorf("live reader: %w", err)
	}
	if opts.Endpoint == nil {
		opts.Endpoint = func(ledger.ClusterName) (string, bool) { return "", false }
	}
	r := &Reader{opts: opts, http: httpClient, mapper: Mapper(), clients: map[string]client.Client{}}
	r.endpoints.read, r.identity.read = r.readSlice, r.readIdentity
	r.serves.read = func(ctx context.Context, at workspaceAt) (bindings, error) {
		return r.bound(ctx, at.endpoint, string(at.cluster))
	}
	return r, nil
}

// Mapper knows the few kinds that are read in workspaces. It asks no server: so no server can fail to answer, and no
// workspace needs a discovery of its own.
func Mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(ipamv1alpha1.GroupVersion.WithKind("IPClaim"), meta.RESTScopeNamespace)
	m.Add(ipamv1alpha1.GroupVersion.WithKind("IPAllocation"), meta.RESTScopeNamespace)
	m.Add(ipamv1alpha1.GroupVersion.WithKind("IPPool"), meta.RESTScopeRoot)
	m.Add(apisv1alpha2.SchemeGroupVersion.WithKind("APIBinding"), meta.RESTScopeRoot)
	m.Add(apisv1alpha1.SchemeGroupVersion.WithKind("APIExportEndpointSlice"), meta.RESTScopeRoot)
	m.Add(apisv1alpha2.SchemeGroupVersion.WithKind("APIExport"), meta.RESTScopeRoot)
	return m
}

// at returns an uncached client of one server and one logical cluster there ("*" for all of them). It keeps clients,
// because to make one costs as much as several requests.
func (r *Reader) at(host, cluster string) (client.Client, error) {
	cfg := r.config(host, cluster)
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.clients[cfg.Host]; ok {
		return c, nil
	}
	c, err := client.New(cfg, client.Options{HTTPClient: r.http, Scheme: r.opts.Scheme, Mapper: r.mapper})
	if err != nil {
		return nil, err
	}
	if len(r.clients) >= mostClients {
		clear(r.clients)
	}
	r.clients[cfg.Host] = c
	return c, nil
}

// config returns a configuration that reaches one server and one logical cluster there.
func (r *Reader) config(host, cluster string) *rest.Config {
	cfg := rest.CopyConfig(r.opts.Config)
	cfg.Host = host
	if cluster != "" {
		cfg.Host += "/clusters/" + cluster
	}
	return cfg
}

// workspaceAt is a workspace as an endpoint serves it.
type workspaceAt struct {
	endpoint string
	cluster  ledger.ClusterName
}

// bindings has the logical clusters that bind the export at an endpoint. The value is the time at which kcp bound the
// latest binding of the cluster; zero: kcp has bound none. revision is the revision of the server when the list was
// read.
type bindings struct {
	clusters map[ledger.ClusterName]time.Time
	revision string
}

// bound lists all logical clusters that bind the export at an endpoint. If cluster is not "*", it lists the bindings of
// that cluster alone.
func (r *Reader) bound(ctx context.Context, endpoint, cluster string) (bindings, error) {
	c, err := r.at(endpoint, cluster)
	if err != nil {
		return bindings{}, err
	}
	found := bindings{clusters: map[ledger.ClusterName]time.Time{}}
	for next := ""; ; {
		list := &apisv1alpha2.APIBindingList{}
		bounded, cancel := context.WithTimeout(ctx, readTimeout)
		err := c.List(bounded, list, client.Limit(page), client.Continue(next))
		cancel()
		if err != nil {
			return bindings{}, fmt.Errorf("list bindings of %s at %s: %w", cluster, endpoint, err)
		}
		for i := range list.Items {
			cluster, since := ledger.ClusterName(logicalcluster.From(&list.Items[i])), boundAt(&list.Items[i])
			if latest, ok := found.clusters[cluster]; !ok || since.After(latest) {
				found.clusters[cluster] = since
			}
		}
		found.revision = list.ResourceVersion
		if next = list.Continue; next == "" {
			return found, nil
		}
	}
}

// boundAt returns when kcp bound a binding; zero if kcp has not bound it. If a workspace has two bindings to the
// export, kcp does not bind the second one while the first is there.
func boundAt(binding *apisv1alpha2.APIBinding) time.Time {
	done := conditions.Get(binding, apisv1alpha2.InitialBindingCompleted)
	if done == nil || done.Status != corev1.ConditionTrue {
		return time.Time{}
	}
	return done.LastTransitionTime.Time
}
