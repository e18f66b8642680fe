package pool

import (
	"context"
	"iter"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// When a pool leaves the ledger, the pools of its workspace that have no CIDR are reconciled. It may have been in their
// way, by its addresses, or because the workspace had as many pools as it may.
func TestRetired_RequeuesPoolsWithoutACIDR(t *testing.T) {
	refused, ready := gen.Pool("refused", gen.CIDR("10.0.0.0/24")), gen.Pool("ready", gen.CIDR("10.1.0.0/24"))
	ready.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionTrue}}
	known := directory.New(directory.Workspace{Cluster: "platform"})
	news := inbox.New(known)
	r := &Reconciler{
		Options: Options{
			Ledger:    views.Ledger{Waits: &withdrawals{}},
			Directory: known,
			Queue:     news.Pools,
		},
		clusters: testbed.Clusters{"w": testbed.NewWorkspace(t, refused, ready)},
	}
	for _, left := range []ledger.Pool{{ID: "p", Cluster: "w", Name: "p"}, {ID: "child", Cluster: "w", Name: "child", Parent: "p"}} {
		news.Retired(left)
		if n := news.Pools.Len(); n != 1 {
			t.Fatalf("%d requests are queued when pool %s has left, want 1", n, left.Name)
		}
		request, _ := news.Pools.Get()
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatalf("Reconcile(%v) = %v", request, err)
		}
		news.Pools.Done(request)
		if n := news.Pools.Len(); n != 1 {
			t.Fatalf("%d pools are queued, want that without a CIDR alone", n)
		}
		got, _ := news.Pools.Get()
		if news.Pools.Done(got); got != inbox.Request("w", client.ObjectKey{Name: "refused"}) {
			t.Errorf("queued is %v, want pool refused of workspace w", got)
		}
	}
}

// When a pool that a user has written goes, the pools of its workspace are listed. When a derived pool goes, they are
// not: derived pools go by the thousands, and the events of all workspaces would wait for the lists.
func TestOnPool_ListsForNoPoolThatTheSystemMade(t *testing.T) {
	lists := 0
	cl := &testbed.Workspace{Client: testbed.NewClient(t).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			lists++
			return nil
		},
	}).Build()}
	known := directory.New(directory.Workspace{Cluster: "platform"})
	news := inbox.New(known)
	t.Cleanup(news.Pools.ShutDown)
	r := &Reconciler{Options: Options{
		Ledger: views.Ledger{Pools: knownPool{}, Recovery: knownPool{}}, Directory: known,
		Seen: func(ledger.ClusterName, *ipamv1alpha1.IPPool, *ipamv1alpha1.IPPool) {},
	}}
	for _, tt := range []struct {
		made *ipamv1alpha1.ClassRef
		want int
	}{{nil, 1}, {&ipamv1alpha1.ClassRef{Name: "net"}, 0}} {
		pool := gen.Pool("p")
		pool.Spec.ClassRef, lists = tt.made, 0
		r.onPool("w", cl).Delete(t.Context(), event.DeleteEvent{Object: pool}, news.Pools)
		if lists != tt.want {
			t.Errorf("the pools are listed %d times when one by class %+v goes, want %d", lists, tt.made, tt.want)
		}
	}
}

// The first status of a derived pool waits for the pool's first block, which the same CREATE binds: so the status is
// written once. A derived pool that shows its CIDR already is queued at once.
func TestOnPool_DelaysANewNetworkUntilItsFirstBlock(t *testing.T) {
	for cidr, want := range map[string]int{"": 0, "10.0.0.0/24": 1} {
		known := directory.New(directory.Workspace{Cluster: "platform"})
		news := inbox.New(known)
		t.Cleanup(news.Pools.ShutDown)
		r := &Reconciler{Options: Options{
			Ledger: views.Ledger{Pools: knownPool{}, Recovery: knownPool{}}, Directory: known,
			Seen: func(ledger.ClusterName, *ipamv1alpha1.IPPool, *ipamv1alpha1.IPPool) {},
		}}
		pool := gen.Pool("net-red")
		pool.Spec.ClassRef, pool.Status.AllocatedCIDR = &ipamv1alpha1.ClassRef{Name: "net"}, cidr
		r.onPool("w", &testbed.Workspace{}).Create(t.Context(), event.CreateEvent{Object: pool}, news.Pools)
		if got := news.Pools.Len(); got != want {
			t.Errorf("%d pools are queued at once when one comes that shows %q, want %d", got, cidr, want)
		}
		if got, _ := news.Pools.Get(); got.Name != pool.Name {
			t.Errorf("queued is %v, want the pool", got)
		}
	}
}

// A pool is queued if its status shows less of the ledger than before, or if the pool is listed again. kcp may have
// been restored from an older copy, and no change of the ledger may follow. A status that the controller has written
// queues nothing.
func TestOnPool_QueuesAPoolWithAnOlderStatus(t *testing.T) {
	shows := func(version string, of *ipamv1alpha1.PoolLedger) *ipamv1alpha1.IPPool {
		pool := gen.Pool("p")
		pool.ResourceVersion, pool.Status.Ledger = version, of
		return pool
	}
	before := shows("7", &ipamv1alpha1.PoolLedger{ID: "a", Changes: 5})
	for name, tt := range map[string]struct {
		after *ipamv1alpha1.IPPool
		want  int
	}{
		"more of the ledger":      {shows("8", &ipamv1alpha1.PoolLedger{ID: "a", Changes: 6}), 0},
		"as much of the ledger":   {shows("8", &ipamv1alpha1.PoolLedger{ID: "a", Changes: 5}), 0},
		"less of the ledger":      {shows("8", &ipamv1alpha1.PoolLedger{ID: "a", Changes: 4}), 1},
		"another ledger":          {shows("8", &ipamv1alpha1.PoolLedger{ID: "b", Changes: 9}), 1},
		"nothing of the ledger":   {shows("8", nil), 1},
		"the same, listed again":  {before, 1},
		"a version that is older": {shows("3", &ipamv1alpha1.PoolLedger{ID: "a", Changes: 4}), 1},
	} {
		t.Run(name, func(t *testing.T) {
			known := directory.New(directory.Workspace{Cluster: "platform"})
			news := inbox.New(known)
			t.Cleanup(news.Pools.ShutDown)
			r := &Reconciler{Options: Options{
				Ledger: views.Ledger{Pools: knownPool{}, Recovery: knownPool{}}, Directory: known,
				Seen: func(ledger.ClusterName, *ipamv1alpha1.IPPool, *ipamv1alpha1.IPPool) {},
			}}
			r.onPool("w", &testbed.Workspace{}).Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: tt.after}, news.Pools)
			if got := news.Pools.Len(); got != tt.want {
				t.Errorf("%d pools are queued, want %d", got, tt.want)
			}
		})
	}
}

// knownPool is a ledger that knows one pool.
type knownPool struct {
	views.Pools
	views.Recovery
	pool   ledger.Pool
	frozen bool
}

func (k knownPool) Get(id ledger.PoolID) (ledger.Pool, bool) { return k.pool, id == k.pool.ID }
func (k knownPool) Frozen(ledger.PoolID) bool                { return k.frozen }

// A pool whose deletion was seen is reported as deleted if it is open in the ledger, and was compared with the ledger.
func TestGone_ReportsOnlyOpenPools(t *testing.T) {
	pool := gen.Pool("p")
	id := ledger.PoolID(pool.UID)
	for name, tt := range map[string]struct {
		ledger knownPool
		want   []ledger.ClaimID
	}{
		"retired":      {},
		"open":         {knownPool{pool: ledger.Pool{ID: id, State: ledger.PoolOpen}}, []ledger.ClaimID{ledger.ClaimID(id)}},
		"draining":     {knownPool{pool: ledger.Pool{ID: id, State: ledger.PoolDraining}}, nil},
		"not compared": {knownPool{pool: ledger.Pool{ID: id, State: ledger.PoolOpen}, frozen: true}, nil},
	} {
		var got []ledger.ClaimID
		r := &Reconciler{
			Options: Options{
				Ledger: views.Ledger{Pools: tt.ledger, Recovery: tt.ledger},
				Deleted: func(h ledger.Holder, _ *ipamv1alpha1.IPPool) {
					if h.Cluster != "w" || h.Namespace != "" || h.Name != "p" {
						t.Errorf("%s: the holder is %+v, want pool p of workspace w", name, h)
					}
					got = append(got, h.Claim)
				},
			},
		}
		r.gone("w", pool)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: said to be deleted are %v, want %v", name, got, tt.want)
		}
	}
}

// When a pool of the platform is retired, the records of its slices are deleted before its finalizer is removed. A
// later leader does not know a pool that is gone, and would not find them. While the pool is in use, the records stay.
func TestRetire_DropsTheSlices(t *testing.T) {
	t.Parallel()
	for _, inUse := range []bool{true, false} {
		p, _ := newEntered(t, ledger.Pool{})
		p.owner = p.Directory.Platform()
		p.pool.Finalizers = []string{ipamv1alpha1.FinalizerPool}
		alloc := p.Ledger.Blocks.(*allocator.Allocator)
		record := ledger.Slice{Pool: p.id, Cluster: "w", Binding: "b", State: ledger.SliceDeclined}
		must.Do(t, alloc.Slices().Put(t.Context(), record, 0))
		holder := ledger.Holder{Claim: "c", Cluster: "w", Namespace: "default", Name: "c"}
		if inUse {
			must.Get(alloc.Bind(t.Context(), ledger.Request{Pool: p.id, Length: 28, Holder: holder}))(t)
		}
		must.Do(t, p.retire(t.Context()))
		left, err := alloc.Slices().List(t.Context(), p.id)
		if err != nil || (len(left) > 0) != inUse || (len(p.pool.Finalizers) > 0) != inUse {
			t.Errorf("in use: %t; %d records are left, %v, and the finalizers %v; want both as long as the pool is in use",
				inUse, len(left), err, p.pool.Finalizers)
		}
	}
}

// A finalizer of the owner may keep the IPPool of a retired pool. Before our finalizer is removed, the block is removed
// from the status: a later process would take the block for lost. Without another finalizer the IPPool goes at once,
// and its status is not written before.
func TestRetire_ClearsTheStatusOfAPoolThatOthersKeep(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		others []string
		shown  string
		passes int
	}{
		"kept":     {[]string{"example.com/keep"}, "", 2},
		"not kept": {nil, "10.0.0.0/24", 1},
	} {
		p, _ := newEntered(t, ledger.Pool{})
		p.pool.Finalizers = slices.Concat(tt.others, []string{ipamv1alpha1.FinalizerPool})
		p.pool.Status.AllocatedCIDR = "10.0.0.0/24"
		for pass := range tt.passes {
			if !controllerutil.ContainsFinalizer(p.pool, ipamv1alpha1.FinalizerPool) {
				t.Errorf("%s: the finalizer is gone before pass %d", name, pass)
			}
			must.Do(t, p.retire(t.Context()))
		}
		if got := p.pool.Status.AllocatedCIDR; got != tt.shown || !slices.Equal(p.pool.Finalizers, tt.others) {
			t.Errorf("%s: the pool shows %q with the finalizers %v; want %q, and %v", name, got, p.pool.Finalizers, tt.shown, tt.others)
		}
	}
}

// A pool that moves to another address domain is retired, and registered again. It stays the same pool: the records of
// its slices stay, and a workspace that has given up its slice does not get another one.
func TestEnter_KeepsTheSlicesInAnotherDomain(t *testing.T) {
	t.Parallel()
	p, _ := newEntered(t, ledger.Pool{})
	p.pool.Spec.AddressDomain = "d"
	alloc := p.Ledger.Blocks.(*allocator.Allocator)
	record := ledger.Slice{Pool: p.id, Cluster: "v", Binding: "b", State: ledger.SliceDeclined}
	must.Do(t, alloc.Slices().Put(t.Context(), record, 0))
	must.Do(t, p.enter(t.Context()))
	entered, _ := alloc.Pools().Get(p.id)
	left, err := alloc.Slices().List(t.Context(), p.id)
	if want := ledger.DomainSpace("w", "d"); err != nil || entered.Space != want || len(left) != 1 {
		t.Errorf("the pool is in space %s, and %d records are left, %v; want space %s, and the record", entered.Space, len(left), err, want)
	}
}

// blocksLedger has these blocks in each pool.
type blocksLedger struct {
	views.Blocks
	blocks []ledger.Block
}

func (l blocksLedger) List(context.Context, allocator.ListOptions) iter.Seq2[ledger.Block, error] {
	return func(yield func(ledger.Block, error) bool) {
		for _, b := range l.blocks {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// holders gives the answer for each holder by its name.
type holders map[string]live.Answer

func (o holders) Holder(_ context.Context, h ledger.Holder) (live.Answer, error) {
	return o[h.Name], nil
}

// A DELETE waits for a pool only if all holders of its blocks are gone, or are being deleted.
func TestDraining_OnlyIfAllHoldersGo(t *testing.T) {
	known := holders{"gone": {Verdict: live.Gone}, "leaving": {Verdict: live.Alive, Leaving: true}, "stays": {Verdict: live.Alive}}
	block := func(holder string, state ledger.BlockState, in ledger.ClusterName) ledger.Block {
		return ledger.Block{State: state, Holder: ledger.Holder{Cluster: in, Namespace: "default", Name: holder}}
	}
	for name, tt := range map[string]struct {
		blocks []ledger.Block
		want   bool
	}{
		"empty by now":      {nil, true},
		"all go":            {[]ledger.Block{block("gone", ledger.Bound, "own"), block("leaving", ledger.Bound, "own"), block("was", ledger.Cooling, "own")}, true},
		"one stays":         {[]ledger.Block{block("gone", ledger.Bound, "own"), block("stays", ledger.Bound, "own")}, false},
		"nobody can tell":   {[]ledger.Block{block("unknown", ledger.Bound, "own")}, false},
		"retained":          {[]ledger.Block{block("gone", ledger.Retained, "own")}, false},
		"of another tenant": {[]ledger.Block{block("gone", ledger.Bound, "other")}, false},
	} {
		r := &Reconciler{Options: Options{Ledger: views.Ledger{Blocks: blocksLedger{blocks: tt.blocks}}, Oracle: known}}
		if got, err := r.draining(t.Context(), door.Pool{Cluster: "own", Name: "p", UID: "u"}); got != tt.want || err != nil {
			t.Errorf("%s: %t, %v; want %t", name, got, err, tt.want)
		}
	}
}
