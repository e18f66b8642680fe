package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// workspace is a cluster of which only the cache is looked at.
type workspace struct {
	cluster.Cluster
	cache filled
}

func (w *workspace) GetCache() cache.Cache { return &w.cache }

// filled is a cache that notes the kinds it is asked to hold.
type filled struct {
	cache.Cache
	kinds []string
}

func (f *filled) GetInformer(_ context.Context, kind client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	f.kinds = append(f.kinds, fmt.Sprintf("%T", kind))
	return nil, nil
}

// engaged notes which workspaces controllers were given.
type engaged struct {
	mu    sync.Mutex
	names []string
	news  chan struct{} // one for each
}

func (e *engaged) Engage(_ context.Context, name multicluster.ClusterName, _ cluster.Cluster) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names = append(e.names, name.String())
	e.news <- struct{}{}
	return nil
}

func (e *engaged) sorted() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(slices.Values(e.names))
}

// A replica that stands by fills its caches and keeps the workspaces to itself. When it
// leads, the controllers get those that are still there, and then every one that comes.
func TestStandby(t *testing.T) {
	t.Parallel()
	s, controllers := newStandby(), &engaged{news: make(chan struct{}, 8)}
	s.AddAware(controllers)
	stays, goes, returns := &workspace{}, &workspace{}, &workspace{}
	left, leave := context.WithCancel(t.Context())
	arrive := func(ctx context.Context, name multicluster.ClusterName, w *workspace) {
		t.Helper()
		if err := s.Engage(ctx, name, w); err != nil {
			t.Fatal(err)
		}
	}
	arrive(t.Context(), "stays", stays)
	arrive(left, "goes", goes)
	arrive(left, "returns", &workspace{})
	leave()
	arrive(t.Context(), "returns", returns)
	if got := controllers.sorted(); len(got) != 0 {
		t.Errorf("while it stands by the controllers are given %v", got)
	}
	if want := []string{"*v1alpha1.IPAllocation"}; !slices.Equal(stays.cache.kinds, want) {
		t.Errorf("while it stands by it fills the caches of %v, want %v", stays.cache.kinds, want)
	}

	leads, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.lead(leads) }()
	<-controllers.news
	<-controllers.news
	arrive(t.Context(), "comes", &workspace{})
	if got, want := controllers.sorted(), []string{"comes", "returns", "stays"}; !slices.Equal(got, want) {
		t.Errorf("when it leads the controllers are given %v, want %v", got, want)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
