package tenants

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/clusters"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/caches"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// reopen is the pause before an endpoint is opened again after a failure.
const reopen = 5 * time.Second

// Options configure a Provider. All fields are required.
type Options struct {
	// Config reaches the platform workspace.
	Config *rest.Config
	// Slice is the name of the APIExportEndpointSlice there.
	Slice string
	// Scheme knows our kinds and kcp's.
	Scheme *runtime.Scheme
	// Directory gets all APIBindings, and then knows which workspaces are bound.
	Directory *directory.Directory
	// Logger logs failures.
	Logger logr.Logger
}

// Provider engages the workspaces that bind the export, and disengages those that do not any more. It is safe for
// concurrent use.
type Provider struct {
	opts    Options
	engaged engaged
	pooled  sync.Map // URL → *endpoint whose pools are cached
	slices  cache.Cache
	roster  *roster
	// followed is set once the endpoints that the slice lists are followed, or there is no slice.
	followed atomic.Bool
	indexes  []clusters.Index
	aware    multicluster.Aware // the manager, with which workspaces are engaged

	// The handler of the slice owns these.
	endpoints map[string]running // by URL
	gap       string             // the gap that was logged last
}

// running is an endpoint that is followed.
type running struct {
	cancel context.CancelFunc
	done   <-chan struct{}
}

var (
	_ multicluster.Provider         = (*Provider)(nil)
	_ multicluster.ProviderRunnable = (*Provider)(nil)
)

// New makes a Provider. It asks no server yet.
func New(opts Options) (*Provider, error) {
	endpointSlices, err := caches.New(opts.Config, cache.Options{
		Scheme: opts.Scheme,
		Mapper: live.Mapper(),
		ByObject: map[client.Object]cache.ByObject{
			&apisv1alpha1.APIExportEndpointSlice{}: {Field: fields.OneTermEqualSelector("metadata.name", opts.Slice)},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("cache of endpoint slices: %w", err)
	}
	p := &Provider{opts: opts, slices: endpointSlices, endpoints: map[string]running{}}
	p.roster = newRoster(clock.RealClock{}, p.engaged.taken)
	return p, nil
}

// Get implements multicluster.Provider.
func (p *Provider) Get(_ context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	if t := p.engaged.tenant(name); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("workspace %s: %w", name, multicluster.ErrClusterNotFound)
}

// IndexField implements multicluster.Provider, for the kinds that are cached. Call it before Start: all endpoints get
// the index when they are opened.
func (p *Provider) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	switch obj.(type) {
	case *ipamv1alpha1.IPPool, *ipamv1alpha1.IPClaim, *ipamv1alpha1.IPAllocation:
	default:
		return fmt.Errorf("index %s of %T: that kind is not cached", field, obj)
	}
	p.indexes = append(p.indexes, clusters.Index{Object: obj, Field: field, Extractor: extract})
	return nil
}

// Listed reports whether all endpoints of the slice have listed their APIBindings.
func (p *Provider) Listed() bool { return p.followed.Load() && p.roster.knows() }

// Reengage disengages a workspace that a controller could not engage, and engages it again.
func (p *Provider) Reengage(name multicluster.ClusterName) { p.disengage(name) }

// disengage ends the engagement of a workspace, if there is one, and queues the workspace to be checked again.
func (p *Provider) disengage(name multicluster.ClusterName) {
	if t := p.engaged.remove(name); t != nil {
		p.roster.recount(name)
		t.at.queue.Add(name)
	}
}

// Start implements multicluster.ProviderRunnable. It follows the endpoint slice until ctx ends, and returns when all
// its goroutines have ended.
func (p *Provider) Start(ctx context.Context, aware multicluster.Aware) error {
	p.aware = aware
	informer, err := p.slices.GetInformer(ctx, &apisv1alpha1.APIExportEndpointSlice{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch endpoint slice %s: %w", p.opts.Slice, err)
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.follow(ctx, obj.(*apisv1alpha1.APIExportEndpointSlice)) },
		UpdateFunc: func(_, obj any) { p.follow(ctx, obj.(*apisv1alpha1.APIExportEndpointSlice)) },
		DeleteFunc: func(any) {
			p.tell("metadata: it was deleted")
			p.keep(nil)
		},
	})
	if err != nil {
		return fmt.Errorf("watch endpoint slice %s: %w", p.opts.Slice, err)
	}
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		p.followed.Store(toolscache.WaitForCacheSync(ctx.Done(), handler.HasSynced))
	}()
	err = p.slices.Start(ctx) // returns when no handler runs any more
	<-noted
	p.keep(nil)
	return err
}

// follow follows the endpoints that a slice lists, and no others.
func (p *Provider) follow(ctx context.Context, slice *apisv1alpha1.APIExportEndpointSlice) {
	p.tell(live.Gap(slice, p.opts.Directory.Platform()))
	urls := make([]string, 0, len(slice.Status.APIExportEndpoints))
	for _, endpoint := range slice.Status.APIExportEndpoints {
		urls = append(urls, endpoint.URL)
	}
	p.keep(urls)
	for _, url := range urls {
		if _, known := p.endpoints[url]; known {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		p.endpoints[url] = running{cancel: cancel, done: done}
		p.roster.await(url, kindBindings, 0)
		go func() {
			defer close(done)
			wait.UntilWithContext(ctx, func(ctx context.Context) { p.serve(ctx, url) }, reopen)
		}()
	}
	listedEndpoints.Set(float64(len(p.endpoints)))
}

// keep ends the endpoints that are not among these URLs, and waits until they have ended.
func (p *Provider) keep(urls []string) {
	for url, e := range p.endpoints {
		if !slices.Contains(urls, url) {
			e.cancel()
			<-e.done
			delete(p.endpoints, url)
			p.roster.unlist(url)
		}
	}
	listedEndpoints.Set(float64(len(p.endpoints)))
}

// tell logs the gap of the slice, if it has changed.
func (p *Provider) tell(gap string) {
	if gap == p.gap {
		return
	}
	p.gap = gap
	if gap == "" {
		partial.Set(0)
		p.opts.Logger.Info("the endpoint slice lists all endpoints", "slice", p.opts.Slice)
		return
	}
	partial.Set(1)
	p.opts.Logger.Info("the endpoint slice may lack endpoints: nothing is freed because a workspace is not found, "+
		"nothing is verified, and a ledger that has lost something stays frozen", "slice", p.opts.Slice, "field", gap)
}

// serve follows an endpoint until ctx ends, or it cannot be opened.
func (p *Provider) serve(ctx context.Context, url string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()                       // of an endpoint that was not opened to the end
	p.roster.await(url, kindBindings, 0) // once more, if the endpoint was followed before
	logger := p.opts.Logger.WithValues("endpoint", url)
	e, err := p.open(ctx, url, logger)
	if err == nil {
		err = e.run(ctx)
	}
	if err != nil && ctx.Err() == nil {
		logger.Error(err, "the endpoint cannot be followed; it is tried again")
	}
}
