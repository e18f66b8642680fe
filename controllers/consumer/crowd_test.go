package consumer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/go-logr/logr"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// crowd is a world of many workspaces, in which every claim exists. A check of a consumer takes
// 10 ms. At the endpoint that is away it lasts until its deadline.
type crowd struct {
	client.Client

	mu        sync.Mutex
	endpoints map[multicluster.ClusterName]string // of the workspaces that are engaged
	leaving   []multicluster.ClusterName          // they leave when the first check ends
	looks     map[ledger.ClusterName]int
	stuck     int // checks in progress at the endpoint that is away
	most      int // of them at the same time
}

// away is the endpoint that answers nothing.
const away = "https://away"

func newCrowd() *crowd {
	c := &crowd{endpoints: map[multicluster.ClusterName]string{}, looks: map[ledger.ClusterName]int{}}
	c.Client = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			claim := gen.Claim(key.Name, gen.Created(time.Unix(0, 0)), gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: "Pod", Namespace: key.Namespace, Name: "p"}))
			*obj.(*ipamv1alpha1.IPClaim) = *claim
			return nil
		},
	})
	return c
}

// member is a workspace of the crowd.
type member struct {
	cluster.Cluster // what the controller does not use
	client          client.Client
	name            multicluster.ClusterName
	endpoint        string
}

func (m member) GetClient() client.Client { return m.client }
func (m member) GetConfig() *rest.Config {
	return &rest.Config{Host: m.endpoint + "/clusters/" + string(m.name)}
}

func (c *crowd) GetCluster(_ context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	endpoint := c.endpoint(name)
	if endpoint == "" {
		return nil, multicluster.ErrClusterNotFound
	}
	return member{client: c.Client, name: name, endpoint: endpoint}, nil
}

func (c *crowd) endpoint(name multicluster.ClusterName) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endpoints[name]
}

func (c *crowd) Holder(context.Context, ledger.Holder) (live.Answer, error) {
	return live.Answer{}, nil
}

func (c *crowd) Object(ctx context.Context, cluster ledger.ClusterName, _ live.Ref) (live.Sight, error) {
	if c.endpoint(multicluster.ClusterName(cluster)) == away {
		c.hang(ctx)
		return live.Sight{}, ctx.Err()
	}
	<-time.After(10 * time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks[cluster]++
	for _, name := range c.leaving {
		delete(c.endpoints, name)
	}
	return live.Sight{Verdict: live.Alive, Object: &unstructured.Unstructured{}}, nil
}

func (c *crowd) hang(ctx context.Context) {
	c.mu.Lock()
	c.stuck++
	c.most = max(c.most, c.stuck)
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stuck--
}

// run runs the controller over some claims of each workspace for a time, as a manager does.
func (c *crowd) run(t *testing.T, claims map[multicluster.ClusterName]int, during time.Duration) {
	t.Helper()
	r := newReconciler(Options{
		Clusters: c, World: c, Directory: directory.New(directory.Workspace{Cluster: "platform", Path: "root:ipam"}),
	}, flowcontrol.NewTokenBucketRateLimiter(looksPerSecond, looksPerSecond))
	options := r.running(logr.Discard())
	options.Reconciler, options.SkipNameValidation = mcreconcile.NewClusterNotFoundWrapper(r), new(true)
	runs := must.Get(controller.NewTypedUnmanaged("consumer", options))(t)
	for name, n := range claims {
		for i := range n {
			r.queue.Add(inbox.Request(name, client.ObjectKey{Namespace: "default", Name: fmt.Sprint("claim-", i)}))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	must.Do(t, runs.Start(ctx))
	<-time.After(time.Minute) // what the queue has started ends
}

// An endpoint that does not answer occupies no more workers than its share: the claims of
// other endpoints are checked in every interval.
func TestReconcile_AnEndpointThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		claims := map[multicluster.ClusterName]int{}
		for i := range 100 {
			name := multicluster.ClusterName(fmt.Sprint("away-", i))
			c.endpoints[name], claims[name] = away, 10
		}
		for i := range 10 {
			name := multicluster.ClusterName(fmt.Sprint("well-", i))
			c.endpoints[name], claims[name] = "https://well", 1
		}
		const intervals = 4
		c.run(t, claims, intervals*30*time.Second)
		for i := range 10 {
			name := ledger.ClusterName(fmt.Sprint("well-", i))
			if n := c.looks[name]; n < intervals-1 {
				t.Errorf("the claim of %s was looked at %d times in %d intervals, want %d at least", name, n, intervals, intervals-1)
			}
		}
		if c.most == 0 || c.most > looksPerEndpoint {
			t.Errorf("%d looks were under way at once at the endpoint that is away, want 1 to %d", c.most, looksPerEndpoint)
		}
	})
}

// A workspace with very many claims does not delay others: the only claim of another
// workspace, at the same endpoint, is checked in every interval.
func TestReconcile_AWorkspaceWithManyClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		c.endpoints["many"], c.endpoints["one"] = "https://well", "https://well"
		const intervals = 3
		c.run(t, map[multicluster.ClusterName]int{"many": 10_000, "one": 1}, intervals*30*time.Second)
		if n := c.looks["one"]; n < intervals-1 {
			t.Errorf("the only claim was looked at %d times in %d intervals, want %d at least", n, intervals, intervals-1)
		}
		all, most := c.looks["many"]+c.looks["one"], looksPerSecond*(30*intervals+1)+workers
		if all < most/2 || all > most {
			t.Errorf("%d looks in all, want about the %d that the servers are to bear", all, most)
		}
	})
}

// Workspaces leave while their claims are kept. The claims of the other workspace are checked.
func TestReconcile_WorkspacesLeaveWhileTheirClaimsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		claims := map[multicluster.ClusterName]int{"stays": 10}
		c.endpoints["stays"] = "https://well"
		for i := range 50 {
			name := multicluster.ClusterName(fmt.Sprint("leaves-", i))
			c.endpoints[name], claims[name] = "https://well", 10
			c.leaving = append(c.leaving, name)
		}
		c.run(t, claims, 20*time.Second)
		if n := c.looks["stays"]; n != 10 {
			t.Errorf("%d looks at the claims of the workspace that stays, want one at each of 10", n)
		}
	})
}
