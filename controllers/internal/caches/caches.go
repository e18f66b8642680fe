// Package caches makes caches that stop within seconds, even while their server is away.
package caches

import (
	"context"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/kcp-ipam/ipam/controllers/internal/source"
)

// ending is how long a cache may take to stop. Its handlers take milliseconds.
const ending = 5 * time.Second

// New makes a cache as [cache.New] does, with two differences. First, each object is decoded by itself, so that an
// unreadable object does not hide others: see package source. That leaves out kinds that selectors or namespaces
// narrow, and objects without a Go type of their kind. Second, Start returns at most five seconds after the context has
// ended. Start of [cache.New] waits for informers, and an informer whose server is away pauses for up to a minute, even
// when it is stopped.
func New(cfg *rest.Config, opts cache.Options) (cache.Cache, error) {
	reading := opts
	opts.NewInformer = func(
		lists toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, by toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		if whole(reading, obj) {
			lists = source.Of(cfg, reading, obj)
		}
		return source.Guarded(toolscache.NewSharedIndexInformerWithOptions(lists, obj,
			toolscache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: by}))
	}
	made, err := cache.New(cfg, opts)
	if err != nil {
		return nil, err
	}
	return bounded{made}, nil
}

// whole reports whether all objects of a kind are cached, each as a value of the Go type of that kind.
func whole(opts cache.Options, obj runtime.Object) bool {
	switch obj.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata:
		return false
	}
	for narrowed := range opts.ByObject {
		if reflect.TypeOf(narrowed) == reflect.TypeOf(obj) {
			return false
		}
	}
	return opts.DefaultNamespaces == nil && opts.DefaultLabelSelector == nil && opts.DefaultFieldSelector == nil
}

type bounded struct{ cache.Cache }

// Start implements cache.Informers.
func (b bounded) Start(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- b.Cache.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(ending):
		return nil
	}
}
