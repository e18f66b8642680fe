// Package testbed is the ground of the controllers' tests, without a server of Kubernetes: workspaces whose clients and
// caches show given objects, and a real ledger.
package testbed

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// Clusters are the workspaces that a manager has engaged, by their names for the manager; that of the platform is "".
// The zero value has none.
type Clusters map[multicluster.ClusterName]cluster.Cluster

// GetCluster returns a workspace, or multicluster.ErrClusterNotFound.
func (c Clusters) GetCluster(_ context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	if w, ok := c[name]; ok {
		return w, nil
	}
	return nil, multicluster.ErrClusterNotFound
}

// Workspace is a cluster with a client, a cache and events. Its other methods panic.
type Workspace struct {
	cluster.Cluster
	Client client.Client
	// Events gets the events that are written. Default: they are dropped.
	Events *events.FakeRecorder
}

// NewWorkspace returns a workspace whose client and cache show these objects. Both show each write at once.
func NewWorkspace(t testing.TB, objects ...client.Object) *Workspace {
	t.Helper()
	return &Workspace{Client: NewClient(t).WithObjects(objects...).Build()}
}

// GetClient implements cluster.Cluster.
func (w *Workspace) GetClient() client.Client { return w.Client }

// GetCache implements cluster.Cluster.
func (w *Workspace) GetCache() cache.Cache { return Cache{Reader: w.Client} }

// GetEventRecorder implements cluster.Cluster.
func (w *Workspace) GetEventRecorder(string) events.EventRecorder {
	if w.Events == nil {
		return &events.FakeRecorder{}
	}
	return w.Events
}

// Cache shows the objects of the reader. Its other methods panic.
type Cache struct {
	cache.Cache
	Reader client.Reader
}

// Get implements client.Reader.
func (c Cache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.Reader.Get(ctx, key, obj, opts...)
}

// List implements client.Reader.
func (c Cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.Reader.List(ctx, list, opts...)
}

// Scheme returns a scheme of the kinds of the API, and of the kinds that the functions others add.
func Scheme(t testing.TB, others ...func(*runtime.Scheme) error) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range append(others, ipamv1alpha1.AddToScheme) {
		must.Do(t, add(scheme))
	}
	return scheme
}

// NewClient returns a builder of a fake client that knows the kinds of the API.
func NewClient(t testing.TB) *fake.ClientBuilder {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(Scheme(t))
}

// Binding returns an APIBinding that serves a workspace. It shows a path, unless that is empty.
func Binding(cluster, path string) *apisv1alpha2.APIBinding {
	b := &apisv1alpha2.APIBinding{ObjectMeta: metav1.ObjectMeta{
		Name: "ipam", UID: types.UID("binding-of-" + cluster), Annotations: map[string]string{"kcp.io/cluster": cluster},
	}}
	if path != "" {
		b.Annotations["kcp.io/path"] = path
	}
	conditions.MarkTrue(b, conditionsv1alpha1.ReadyCondition)
	return b
}

// Ledger opens the ledger in an etcd, with these pools, until the test ends.
func Ledger(t testing.TB, etcd *clientv3.Client, options allocator.Options, pools ...ledger.Pool) *allocator.Allocator {
	t.Helper()
	a := must.Get(allocator.Open(t.Context(), etcd, options))(t)
	must.Ends(t, a.Close)
	for _, p := range pools {
		if _, err := a.Pools().Register(t.Context(), p); err != nil {
			t.Fatalf("register pool %s: %v", p.ID, err)
		}
	}
	return a
}

// Blocks returns a text for each block of a ledger: prefix, state and holder.
func Blocks(t testing.TB, a *allocator.Allocator) (found []string) {
	t.Helper()
	for b, err := range a.List(t.Context(), allocator.ListOptions{}) {
		must.Do(t, err)
		found = append(found, b.Prefix.String()+" "+string(b.State)+" "+string(b.Holder.Claim))
	}
	return found
}

// WantBlocks fails the test unless a ledger has exactly these blocks, in the form of Blocks.
func WantBlocks(t testing.TB, a *allocator.Allocator, want ...string) {
	t.Helper()
	if got := Blocks(t, a); !slices.Equal(got, want) {
		t.Errorf("the ledger has %q, want %q", got, want)
	}
}

// Pool returns a root pool of a workspace. Its name is its ID.
func Pool(in ledger.ClusterName, id, cidr string) ledger.Pool {
	return ledger.Pool{ID: ledger.PoolID(id), Cluster: in, Name: id, CIDR: netip.MustParsePrefix(cidr)}
}
