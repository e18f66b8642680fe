package tenants

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/kcp-dev/logicalcluster/v3"
	kcpcache "github.com/kcp-dev/multicluster-provider/pkg/cache"
	"github.com/kcp-dev/multicluster-provider/pkg/events/recorder"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/packed"
	"github.com/kcp-ipam/ipam/controllers/internal/wildcard"
)

const (
	// soonest and latest bound the pause before a workspace is tried again after a failure.
	soonest, latest = 50 * time.Millisecond, 30 * time.Second
	// flushing is how long the last events of a workspace may take to be written when it is disengaged.
	flushing = 10 * time.Second
)

// endpoint serves the workspaces of one shard, while the slice has its URL.
type endpoint struct {
	*Provider
	url       string
	config    *rest.Config
	cache     kcpcache.WildcardCache
	kept      map[reflect.Type]toolscache.Indexer // indexers of the cache, by kind; set once the cache is filled
	writer    client.Client                       // writes to all its workspaces: see router
	http      *http.Client
	recorders *recorder.Manager
	queue     workqueue.TypedRateLimitingInterface[multicluster.ClusterName]
	need      sync.Once
	needed    chan struct{} // closed when a workspace is bound
	logger    logr.Logger
}

// open makes an endpoint. To follow the endpoint, call run.
func (p *Provider) open(ctx context.Context, url string, logger logr.Logger) (*endpoint, error) {
	cfg := rest.CopyConfig(p.opts.Config)
	cfg.Host = url
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make its client: %w", err)
	}
	shared, err := wildcard.New(cfg, cache.Options{
		Scheme: p.opts.Scheme, Mapper: live.Mapper(), HTTPClient: web, DefaultTransform: (&packed.Packer{}).Transform,
	})
	if err != nil {
		return nil, fmt.Errorf("make its cache: %w", err)
	}
	writer, err := newWriter(cfg, p.opts.Scheme)
	if err != nil {
		return nil, fmt.Errorf("make its client: %w", err)
	}
	bindings, err := shared.GetInformer(ctx, &apisv1alpha2.APIBinding{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch APIBindings: %w", err)
	}
	e := &endpoint{
		Provider:  p,
		writer:    writer,
		http:      web,
		url:       url,
		config:    cfg,
		cache:     shared,
		kept:      map[reflect.Type]toolscache.Indexer{},
		recorders: recorder.NewManager(p.opts.Scheme, logger.V(1)),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[multicluster.ClusterName](soonest, latest),
			workqueue.TypedRateLimitingQueueConfig[multicluster.ClusterName]{Name: "tenants"}),
		needed: make(chan struct{}),
		logger: logger,
	}
	_, err = bindings.AddEventHandler(e)
	return e, err
}

// run follows the endpoint until ctx ends, or it cannot be followed.
func (e *endpoint) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(ctx, e.queue.ShutDown)
	ended := make(chan error, 1)
	go func() {
		ended <- e.cache.Start(ctx) // returns when no handler runs any more
	}()
	err := e.fill(ctx)
	if err == nil {
		e.work(ctx)
	}
	cancel()
	err = errors.Join(err, <-ended)
	e.close()
	return err
}

// fill fills the caches of all kinds that are read at the endpoint, with all indexes. So no list can fail for a single
// workspace, and reads of an engaged workspace never wait for a list. The endpoint may not know the kinds before the
// first workspace is bound. The pools are listed first, because CREATEs can be answered once they are cached: see
// Bound.
func (e *endpoint) fill(ctx context.Context) error {
	if !e.cache.WaitForCacheSync(ctx) { // of the APIBindings
		return ctx.Err()
	}
	e.roster.fill(e.url, true)
	select {
	case <-e.needed:
	default:
		e.roster.await(e.url, "", 0) // without bindings, no pools are needed
	}
	select {
	case <-e.needed:
	case <-ctx.Done():
		return ctx.Err()
	}
	e.roster.fill(e.url, false)
	e.roster.await(e.url, "IPPools", 0)
	if err := e.list(ctx, &ipamv1alpha1.IPPool{}); err != nil {
		return err
	}
	e.pooled.Store(e.url, e)
	e.roster.await(e.url, "IPClaims and IPAllocations", listing)
	if err := e.list(ctx, &ipamv1alpha1.IPClaim{}, &ipamv1alpha1.IPAllocation{}); err != nil {
		return err
	}
	e.roster.fill(e.url, true)
	e.roster.await(e.url, "", 0)
	return nil
}

// list fills the caches of these kinds.
func (e *endpoint) list(ctx context.Context, kinds ...client.Object) error {
	for _, kind := range kinds {
		for _, index := range e.indexes {
			if reflect.TypeOf(index.Object) != reflect.TypeOf(kind) {
				continue
			}
			if err := e.cache.IndexField(ctx, index.Object, index.Field, index.Extractor); err != nil {
				return fmt.Errorf("index %s: %w", index.Field, err)
			}
		}
		informer, err := e.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		// as the wildcard cache requires it, too
		e.kept[reflect.TypeOf(kind)] = informer.(toolscache.SharedIndexInformer).GetIndexer()
	}
	if !e.cache.WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	return nil
}

// close disengages the workspaces of the endpoint, and forgets the bindings that it has shown.
func (e *endpoint) close() {
	e.pooled.Delete(e.url)
	e.roster.fill(e.url, false)
	for _, name := range e.engaged.at(e) {
		e.disengage(name)
	}
	for _, cluster := range e.opts.Directory.Closed(e.url) {
		e.roster.bind(multicluster.ClusterName(cluster), e.opts.Directory.Bound(cluster))
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushing)
	defer cancel()
	e.recorders.Stop(ctx)
}

func (e *endpoint) work(ctx context.Context) {
	for {
		name, ended := e.queue.Get()
		if ended {
			return
		}
		e.look(ctx, name)
	}
}

// look settles a workspace, and queues it again if that fails.
func (e *endpoint) look(ctx context.Context, name multicluster.ClusterName) {
	defer e.queue.Done(name)
	err := e.settle(ctx, name)
	if err == nil || ctx.Err() != nil {
		e.queue.Forget(name)
		return
	}
	e.roster.fail(name, err)
	e.logger.Error(err, "the workspace is not engaged; it is tried again", "cluster", name)
	e.queue.AddRateLimited(name)
}

// settle engages a workspace that is bound, and disengages one that is not.
func (e *endpoint) settle(ctx context.Context, name multicluster.ClusterName) error {
	bound := e.opts.Directory.Served(e.url, ledger.ClusterName(name))
	there := e.engaged.tenant(name)
	switch {
	case bound && there == nil:
		return e.engage(ctx, name)
	case bound && there.at != e:
		return fmt.Errorf("%s shows it, too", there.at.url)
	case !bound && there != nil && there.at == e:
		e.disengage(name)
		e.recorders.StopProvider(ctx, logicalcluster.Name(name))
	}
	return nil
}

// engage hands a workspace to the controllers, until ctx ends or the workspace is disengaged.
func (e *endpoint) engage(ctx context.Context, name multicluster.ClusterName) error {
	scoped, err := e.scoped(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &tenant{name: name, cache: scoped, at: e, ended: ctx.Done(), cancel: cancel}
	e.engaged.add(name, t) // the controllers look it up as soon as they have it
	if err := e.aware.Engage(ctx, name, t); err != nil {
		e.engaged.remove(name)
		return err
	}
	e.engaged.take(t)
	e.roster.recount(name)
	return nil
}

// OnAdd implements toolscache.ResourceEventHandler.
func (e *endpoint) OnAdd(obj any, _ bool) { e.saw(bindingOf(obj)) }

// OnUpdate implements toolscache.ResourceEventHandler. A list may show a binding in the place of another one of the
// same name.
func (e *endpoint) OnUpdate(before, after any) {
	was, is := bindingOf(before), bindingOf(after)
	if was.UID != is.UID {
		e.opts.Directory.Missed(was)
	}
	e.saw(is)
}

// OnDelete implements toolscache.ResourceEventHandler.
func (e *endpoint) OnDelete(obj any) {
	if missing, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		b := bindingOf(missing.Obj)
		e.opts.Directory.Missed(b)
		e.compare(b)
		return
	}
	b := bindingOf(obj)
	e.opts.Directory.Gone(b)
	e.compare(b)
}

// bindingOf returns a binding as it was before the cache packed it.
func bindingOf(obj any) *apisv1alpha2.APIBinding {
	return packed.Whole(obj.(client.Object)).(*apisv1alpha2.APIBinding)
}

func (e *endpoint) saw(b *apisv1alpha2.APIBinding) {
	e.opts.Directory.Seen(e.url, b)
	e.compare(b)
}

// compare queues a workspace whose bindings have changed.
func (e *endpoint) compare(b *apisv1alpha2.APIBinding) {
	cluster := ledger.ClusterName(logicalcluster.From(b))
	e.roster.bind(multicluster.ClusterName(cluster), e.opts.Directory.Bound(cluster))
	if e.opts.Directory.Served(e.url, cluster) {
		e.need.Do(func() { close(e.needed) })
	}
	e.queue.Add(multicluster.ClusterName(cluster))
}
