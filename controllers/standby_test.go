package controllers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/test/must"
)

// workspace is a cluster. No test calls its methods.
type workspace struct{ cluster.Cluster }

// engaged notes which workspaces controllers were given.
type engaged struct {
	mu      sync.Mutex
	names   []string
	news    chan struct{} // a value for each workspace
	refused multicluster.ClusterName
}

func (e *engaged) Engage(_ context.Context, name multicluster.ClusterName, _ cluster.Cluster) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if name == e.refused {
		return errors.New("no")
	}
	e.names = append(e.names, name.String())
	e.news <- struct{}{}
	return nil
}

func (e *engaged) sorted() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(slices.Values(e.names))
}

// A standby keeps the workspaces from the controllers. When it leads, the controllers get those that are still there,
// and then every one that comes.
func TestStandby_KeepsTheWorkspacesUntilItLeads(t *testing.T) {
	t.Parallel()
	s, controllers := newStandby(nil), &engaged{news: make(chan struct{}, 8)}
	s.AddAware(controllers)
	stays, goes, returns := &workspace{}, &workspace{}, &workspace{}
	left, leave := context.WithCancel(t.Context())
	arrive := func(ctx context.Context, name multicluster.ClusterName, w *workspace) {
		t.Helper()
		must.Do(t, s.Engage(ctx, name, w))
	}
	arrive(t.Context(), "stays", stays)
	arrive(left, "goes", goes)
	arrive(left, "returns", &workspace{})
	leave()
	arrive(t.Context(), "returns", returns)
	if got := controllers.sorted(); len(got) != 0 {
		t.Errorf("while it stands by the controllers are given %v", got)
	}

	s.lead(t.Context())
	<-controllers.news
	<-controllers.news
	arrive(t.Context(), "comes", &workspace{})
	if got, want := controllers.sorted(), []string{"comes", "returns", "stays"}; !slices.Equal(got, want) {
		t.Errorf("when it leads the controllers are given %v, want %v", got, want)
	}
}

// If the controllers fail to engage a workspace when a replica begins to lead, the workspace is engaged again. The
// replica goes on to lead, and the other workspaces are served.
func TestStandby_EngagesAWorkspaceThatFailedAgain(t *testing.T) {
	t.Parallel()
	again := make(chan multicluster.ClusterName, 8)
	s, controllers := newStandby(func(name multicluster.ClusterName) { again <- name }), &engaged{news: make(chan struct{}, 8), refused: "broken"}
	s.AddAware(controllers)
	for _, name := range []multicluster.ClusterName{"a", "broken", "b"} {
		must.Do(t, s.Engage(t.Context(), name, &workspace{}))
	}
	s.lead(t.Context())
	<-controllers.news
	<-controllers.news
	if name := <-again; name != "broken" {
		t.Errorf("engaged again is %s, want broken", name)
	}
	if got, want := controllers.sorted(), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("the controllers are given %v, want %v", got, want)
	}
}
