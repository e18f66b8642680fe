package claim

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/test/gen"
)

// somewhere is a manager by which every workspace is engaged, with these claims in its cache.
type somewhere []*ipamv1alpha1.IPClaim

func (s somewhere) GetCluster(context.Context, multicluster.ClusterName) (cluster.Cluster, error) {
	return cached{claims: s}, nil
}

// cached is a cluster of which only the cache is looked at.
type cached struct {
	cluster.Cluster
	claims []*ipamv1alpha1.IPClaim
}

func (c cached) GetCache() cache.Cache { return claims{all: c.claims} }

// claims is a cache that lists claims.
type claims struct {
	cache.Cache
	all []*ipamv1alpha1.IPClaim
}

func (c claims) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	list := into.(*ipamv1alpha1.IPClaimList)
	for _, claim := range c.all {
		list.Items = append(list.Items, *claim)
	}
	return nil
}

// What was passed over while a workspace was giving up the export is reconciled when it is
// served again. Of one that is not engaged nothing is known yet.
func TestArrived(t *testing.T) {
	t.Parallel()
	known := directory.New(directory.Workspace{Cluster: "p", Path: "root:ipam"})
	r := &Reconciler{directory: known, queue: inbox.New(known).Claims}
	t.Cleanup(r.queue.ShutDown)

	r.clusters = nowhere{}
	r.Arrived("a")
	if got := r.queue.Len(); got != 0 {
		t.Errorf("%d claims of a workspace that is not engaged are queued, want none", got)
	}
	r.clusters = somewhere{gen.Claim("x"), gen.Claim("y")}
	r.Arrived("a")
	for _, want := range []string{"x", "y"} {
		if got, _ := r.queue.Get(); got != requestIn("a", want) {
			t.Errorf("queued is %v, want %v", got, requestIn("a", want))
		}
	}
	if got := r.queue.Len(); got != 0 {
		t.Errorf("%d more claims are queued, want none", got)
	}
}
