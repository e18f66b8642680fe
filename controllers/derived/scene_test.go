package derived

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

const tenant = ledger.ClusterName("w")

// scene is a Controller over a real ledger with a root pool of the platform, and a workspace in memory.
type scene struct {
	*testing.T
	*Controller
	alloc     *allocator.Allocator
	etcd      *clientv3.Client
	clusters  testbed.Clusters
	workspace client.Client
	clock     *clocktesting.FakeClock
	verdict   live.Verdict // of the servers, if it is not Unknown
	since     time.Time    // when the endpoint slice was made
	away      bool         // no server answers
	departed  bool
	compared  bool // Compare says that the ledger has lost nothing
	bound     bool
	lost      bool // HasAll says that the ledger may lack a pool that a claim shows
	cooldown  time.Duration
	begins    map[ledger.PoolID]*ledger.Derived // the address spaces that a test has asked for
	asked     atomic.Int32                      // how often the servers were asked
	meanwhile func()                            // runs once, before the servers answer next
	unseen    bool                              // nobody saw the deletion of a claim
}

func newScene(t *testing.T, objects ...client.Object) *scene {
	t.Helper()
	s := &scene{T: t, begins: map[ledger.PoolID]*ledger.Derived{}, clock: clocktesting.NewFakeClock(time.Now()), bound: true, etcd: etcdtest.New(t).Client()}
	s.workspace = testbed.NewWorkspace(t, objects...).Client
	s.clusters = testbed.Clusters{"": testbed.NewWorkspace(t, gen.Class("net"), gen.Class("sub"))}
	s.start(s.etcd, s.workspace, testbed.Pool("platform", "root", "10.0.0.0/16"))
	return s
}

// start starts a controller with these clients of the ledger and of the workspace.
func (s *scene) start(etcd *clientv3.Client, workspace client.Client, pools ...ledger.Pool) {
	s.Helper()
	s.alloc = testbed.Ledger(s, etcd, allocator.Options{
		Cooldown: func(ledger.Block) (time.Duration, error) { return s.cooldown, nil },
	}, pools...)
	s.clusters["w"] = &testbed.Workspace{Client: workspace}
	classes := &catalog.Catalog{
		Clusters: s.clusters, Directory: directory.New(directory.Workspace{Cluster: "platform", Path: "root:ipam"}), Rooms: s.alloc.Pools(),
	}
	keeper := &Keeper{
		Ledger: views.Of(s.alloc), Ranges: s.alloc.Derived(), Catalog: classes, Oracle: s, Clock: s.clock, Since: s.clock.Now(),
		Departed: func(ledger.ClusterName) bool { return s.departed },
		Compare:  func(context.Context, ledger.PoolID) (bool, error) { return s.compared, nil },
	}
	s.Controller = newController(Options{
		Closer: &Closer{
			Keeper: keeper, Releases: s,
			HasAll:   func(context.Context, ledger.ClusterName, client.Object) (bool, error) { return !s.lost, nil },
			InOffice: s.alloc.InOffice,
		}, News: NewNews(s.alloc.Pools()), Idle: DefaultIdle, Bound: func(ledger.ClusterName) bool { return s.bound },
	})
	s.Cleanup(s.queue.ShutDown)
}

// Census implements the Oracle of package release.
func (s *scene) Census(context.Context) (live.Census, bool, error) { return live.Census{}, false, nil }

// Lacks implements the Oracle of package release.
func (*scene) Existed(context.Context, client.Client, ledger.Holder, string) (existed, known bool, err error) {
	return false, false, nil
}

func (s *scene) Lacks(context.Context, ledger.Holder) (client.Client, bool, error) {
	return nil, false, nil
}

// unmanaged is a manager that runs nothing.
type unmanaged struct{ manager.Manager }

func (unmanaged) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true)}
}
func (unmanaged) GetLogger() logr.Logger     { return logr.Discard() }
func (unmanaged) Add(manager.Runnable) error { return nil }

// Holder implements Oracle. It answers from the objects of the workspace, unless the scene has a verdict.
func (s *scene) Holder(ctx context.Context, h ledger.Holder) (live.Answer, error) {
	if do := s.meanwhile; do != nil {
		s.meanwhile = nil
		do()
	}
	s.asked.Add(1)
	if s.away || s.verdict != live.Unknown {
		return live.Answer{Verdict: s.verdict, Since: s.since}, nil
	}
	if h.Cluster != tenant {
		return live.Answer{Verdict: live.Alive}, nil
	}
	var object client.Object = &ipamv1alpha1.IPPool{}
	if h.Namespace != "" {
		object = &ipamv1alpha1.IPClaim{}
	}
	err := s.workspace.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Name}, object)
	answer := live.Answer{Verdict: live.Gone, Client: s.clusters["w"].GetClient()}
	switch {
	case apierrors.IsNotFound(err):
		return answer, nil
	case err != nil:
		return live.Answer{}, err
	}
	answer.Object = object
	if live.Is(object, h) {
		answer.Verdict, answer.Leaving = live.Alive, !object.GetDeletionTimestamp().IsZero()
	}
	return answer, nil
}

// GoneWitnessed reports whether the holder is gone. Unlike package release, it takes every deletion as seen.
func (s *scene) GoneWitnessed(ctx context.Context, h ledger.Holder) (bool, error) {
	answer, err := s.Holder(ctx, h)
	return answer.Verdict == live.Gone, err
}

// SettleWitnessed does what Settle does. While s.unseen is true, it does nothing, as if nobody had seen the deletion.
func (s *scene) SettleWitnessed(ctx context.Context, h ledger.Holder) (bool, error) {
	if s.unseen {
		return false, nil
	}
	return s.Settle(ctx, h)
}

// Settle frees the block or range of a holder that is gone, and reports whether the holder is settled. Unlike package
// release, it retains nothing, and needs one answer alone.
func (s *scene) Settle(ctx context.Context, h ledger.Holder) (bool, error) {
	answer, err := s.Holder(ctx, h)
	if err != nil || answer.Verdict != live.Gone {
		return answer.Verdict == live.Alive, err
	}
	if p, ok := s.alloc.Derived().Held(h.Claim); ok {
		if p.Closed() {
			return true, s.RetireClosed(ctx, p.ID, h.Claim)
		}
		return true, s.alloc.Derived().Drop(ctx, p.ID, h.Claim, time.Time{})
	}
	return true, s.alloc.Release(ctx, h.Claim)
}

// network makes the pool of a class for a network, and publishes it in the workspace. The pool is carved from the pool
// with the ID in above. by is the claim that holds the new pool, if one does.
func (s *scene) network(class, name string, above ledger.PoolID, length int, by ...ledger.Holder) ledger.Pool {
	s.Helper()
	p := ledger.Pool{Cluster: tenant, Name: class + "-" + name, Derived: &ledger.Derived{
		Class: class, Workspace: tenant, Scope: ledger.Scope{"network": {APIGroup: "net.example", Kind: "Network", Name: name}},
	}}
	for _, holder := range by {
		p.Derived.Holder = holder
	}
	p = must.Get(s.alloc.Derived().Provision(s.Context(), ledger.Request{Pool: above, Begins: s.begins[above], Length: length}, p, nil))(s)
	must.Do(s, s.Publish(s.Context(), p))
	return p
}

// bind creates a claim in the workspace, and binds an address of a pool for it.
func (s *scene) bind(pool ledger.Pool, name string) *ipamv1alpha1.IPClaim {
	s.Helper()
	claim := gen.Claim(name)
	testbed.Create(s, s.workspace, claim)
	must.Get(s.alloc.Bind(s.Context(), ledger.Request{Pool: pool.ID, Begins: s.begins[pool.ID], Holder: holderOf(claim), Length: 32}))(s)
	return claim
}

func holderOf(claim *ipamv1alpha1.IPClaim) ledger.Holder {
	return ledger.Holder{Claim: ledger.ClaimID(claim.UID), Cluster: tenant, Namespace: claim.Namespace, Name: claim.Name}
}

// wantGone waits until a pool has left the ledger by itself.
func (s *scene) wantGone(p ledger.Pool) {
	s.Helper()
	gone := func(context.Context) (bool, error) { return !s.known(p), nil }
	if err := wait.PollUntilContextTimeout(s.Context(), time.Millisecond, 10*time.Second, true, gone); err != nil {
		s.Fatalf("pool %s stays: %v", p.ID, err)
	}
}

// object returns the IPPool of a pool; nil if there is none.
func (s *scene) object(pool ledger.Pool) *ipamv1alpha1.IPPool {
	s.Helper()
	object := &ipamv1alpha1.IPPool{}
	err := s.workspace.Get(s.Context(), client.ObjectKey{Name: pool.Name}, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must.Do(s, err)
	return object
}

// known reports whether the ledger has a pool.
func (s *scene) known(pool ledger.Pool) bool {
	_, ok := s.alloc.Pools().Get(pool.ID)
	return ok
}

// look reconciles a pool.
func (s *scene) look(pool ledger.Pool) {
	s.Helper()
	must.Get(s.Reconcile(s.Context(), request{pool.ID, pool.Cluster, pool.Name}))(s)
}

// idles sweeps twice, with this time in between.
func (s *scene) idles(during time.Duration) {
	s.Helper()
	s.sweeps()
	s.clock.Step(during)
	s.sweeps()
}

// sweeps reconciles the pools that a sweep queues, and returns their number.
func (s *scene) sweeps() (due int) {
	s.Helper()
	s.sweep(s.Context())
	for s.queue.Len() > 0 {
		req, _ := s.queue.Get()
		if _, err := s.Reconcile(s.Context(), req); err != nil {
			s.Fatalf("Reconcile of %+v: %v", req, err)
		}
		s.queue.Done(req)
		due++
	}
	return due
}
