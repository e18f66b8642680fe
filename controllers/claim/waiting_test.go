package claim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// When a workspace is no longer bound or engaged, the waits of its claims end, here and in the ledger. Otherwise the
// ledger would hold room for them again and again.
func TestWaiting_EndsWithTheWorkspace(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(t *testing.T, r *Reconciler){
		"departed": func(_ *testing.T, r *Reconciler) { r.Departed("a") },
		"engaged no more": func(t *testing.T, r *Reconciler) {
			r.Queue = inbox.New(r.Directory).Claims
			t.Cleanup(r.Queue.ShutDown)
			r.Changed("a")
			if queued := r.Queue.Len(); queued != 1 {
				t.Fatalf("%d claims are looked at, want the one that waits there", queued)
			}
			claim, _ := r.Queue.Get()
			if _, err := r.Reconcile(t.Context(), claim); !errors.Is(err, multicluster.ErrClusterNotFound) {
				t.Errorf("a look at %v ended with %v", claim, err)
			}
		},
		"woken": func(t *testing.T, r *Reconciler) {
			if _, err := r.Reconcile(t.Context(), requestIn("a", "x")); !errors.Is(err, multicluster.ErrClusterNotFound) {
				t.Errorf("a claim of a workspace that is not there: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lists := &withdrawals{}
			r := &Reconciler{Options: Options{Ledger: views.Ledger{Waits: lists}, Directory: directory.New(directory.Workspace{Cluster: "p", Path: "root:ipam"})}, clusters: testbed.Clusters{}}
			class := topic{kind: classTopic, name: "c"}
			for _, cluster := range []ledger.ClusterName{"a", "b"} {
				r.waiting.enter(requestIn(multicluster.ClusterName(cluster), "x"), gen.Claim("x"), []topic{{kind: nameTopic, cluster: cluster}, class})
			}
			ends(t, r)
			if left := r.waiting.on(class); len(left) != 1 || left[0] != requestIn("b", "x") {
				t.Errorf("%v wait, want that of the other workspace alone", left)
			}
			if lists.count != 1 {
				t.Errorf("%d withdrawn from the ledger, want one", lists.count)
			}
		})
	}
}

// A claim shows a block, and waits for a retained record to be deleted. When its workspace leaves, the wait ends.
func TestDeparted_EndsTheWaitForARecord(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	s.retains("c")
	claim := reuses(gen.OfClass("internal"), gen.Address("10.0.0.16"))
	must.Get(s.ledger.Bind(t.Context(), ledger.Request{
		Pool: "uid-of-p", Class: "internal", Exact: netip.MustParsePrefix("10.0.0.16/28"), Length: 28, Holder: promise.HolderOf("tenant", claim),
	}))(t)
	shown := door.Answer{}
	shown.Status.AllocatedCIDR, shown.Status.Phase = "10.0.0.16/28", ipamv1alpha1.ClaimBound
	s.stored(claim, shown)
	s.reconcile("c")
	record := recordTopicOf("tenant", "default", ipamv1alpha1.AllocationName("default", "c"))
	if len(s.waiting.on(record)) != 1 {
		t.Fatal("the claim does not wait for the record")
	}
	s.Departed("tenant")
	if left := s.waiting.on(record); len(left) > 0 {
		t.Errorf("%v wait for the record of a workspace that has left, want none", left)
	}
}

// lists notes at which pools claims wait.
type lists struct {
	views.Waits

	mu sync.Mutex
	at map[ledger.PoolID][]ledger.ClaimID
}

// agenda notes which claims are requeued after a delay.
type agenda struct {
	inbox.Queue
	later []string
}

// noteLooks replaces the queue of a scene by an agenda.
func noteLooks(s *scene) *agenda {
	a := &agenda{Queue: s.Queue}
	s.Queue = a
	return a
}

func (a *agenda) AddAfter(claim mcreconcile.Request, after time.Duration) {
	a.later = append(a.later, claim.Name)
	a.Queue.AddAfter(claim, after)
}

// noteWaits notes the waits in a ledger from now on.
func noteWaits(l *views.Ledger) *lists {
	w := &lists{Waits: l.Waits, at: map[ledger.PoolID][]ledger.ClaimID{}}
	l.Waits = w
	return w
}

func (w *lists) Add(r ledger.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.at[r.Pool], r.Holder.Claim) {
		w.at[r.Pool] = append(w.at[r.Pool], r.Holder.Claim)
	}
	w.Waits.Add(r)
}

func (w *lists) KeepOnly(claim ledger.ClaimID, at ...ledger.PoolID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for pool, claims := range w.at {
		if !slices.Contains(at, pool) {
			w.at[pool] = slices.DeleteFunc(claims, func(c ledger.ClaimID) bool { return c == claim })
		}
	}
	w.Waits.KeepOnly(claim, at...)
}

func (w *lists) Withdraw(claim ledger.ClaimID) { w.KeepOnly(claim) }

// count returns the number of claims that wait at a pool.
func (w *lists) count(pool ledger.PoolID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.at[pool])
}

// When another claim has the name of a waiting claim, the waiting claim leaves the waiting lists of the ledger. It does
// so even if it was replaced during the pass that entered it there.
func TestWaiting_EndsForAReplacedClaim(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	s.takes("uid-of-p", "10.0.0.0/24")
	events := inbox.NewQueue("replaced")
	defer events.ShutDown()
	old := func(uid types.UID, options ...gen.ClaimOption) *ipamv1alpha1.IPClaim {
		claim := gen.Claim("c", append(options, gen.UID(uid))...)
		claim.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second))
		return claim
	}
	first, second := old("a", gen.OfClass("internal"), gen.Length(24)), old("b", gen.FromPool("none"))
	cache, handler := s.tenant.Client, s.onClaim("tenant", s.tenant)
	must.Do(t, cache.Create(t.Context(), bare(first)))
	handler.Create(t.Context(), event.CreateEvent{Object: first}, events)
	waits := noteWaits(&s.Ledger)
	s.Ledger.Blocks = &interrupted{Blocks: s.ledger, by: func() {
		if err := cache.Delete(t.Context(), first); err != nil {
			t.Error(err)
		}
		if err := cache.Create(t.Context(), bare(second)); err != nil {
			t.Error(err)
		}
		gone := first.DeepCopy()
		gone.ResourceVersion = "77"
		handler.Delete(t.Context(), event.DeleteEvent{Object: gone}, events)
		handler.Create(t.Context(), event.CreateEvent{Object: second}, events)
	}}
	for range 2 { // one pass for each: the events came together
		_, _ = s.Reconcile(t.Context(), requestIn("tenant", "c")) // an error only says that the first claim is gone
	}
	if n := waits.count("uid-of-p"); n != 0 {
		t.Errorf("%d claims wait for room in the pool, want none: one is gone, and its successor asks for another pool", n)
	}
}

// asked counts how often a ledger is asked for a block.
type asked struct {
	views.Blocks
	binds int
}

func (a *asked) Bind(ctx context.Context, r ledger.Request) (ledger.Block, error) {
	a.binds++
	return a.Blocks.Bind(ctx, r)
}

// takes binds a block of a pool for a claim of another workspace.
func (s *scene) takes(pool ledger.PoolID, block string) {
	s.Helper()
	exact, id := netip.MustParsePrefix(block), "taker-of-"+string(pool)
	must.Get(s.ledger.Bind(s.Context(), ledger.Request{
		Pool: pool, Length: exact.Bits(), Exact: exact,
		Holder: ledger.Holder{Claim: ledger.ClaimID(id), Cluster: "other", Namespace: "default", Name: id},
	}))(s)
}

// fullPools returns a scene whose tenant has these claims, and a number of pools of the class "internal". All pools
// have the same CIDR, and a block of each is taken.
func fullPools(t *testing.T, length int32, pools int, cidr, taken string, claims ...client.Object) (*scene, *asked) {
	t.Helper()
	tenant := make([]client.Object, pools)
	for n := range tenant {
		tenant[n] = readyPool(fmt.Sprintf("p%03d", n), ipamv1alpha1.CIDR(cidr), gen.Backs("internal"))
	}
	s := newScene(t, allocator.Options{}, []client.Object{gen.Class("internal", gen.DefaultLength(length))}, append(tenant, claims...)...)
	counted := &asked{Blocks: s.ledger}
	s.Ledger.Blocks, s.Queue = counted, inbox.New(s.Directory).Claims
	t.Cleanup(s.Queue.ShutDown)
	for n, object := range tenant[:pools] {
		pool := testbed.Pool(ledger.ClusterName(fmt.Sprint("w", n)), string(object.GetUID()), cidr)
		if pool.Name = object.GetName(); n == pools-1 {
			pool.Cluster = "tenant"
		}
		must.Get(s.ledger.Pools().Register(t.Context(), pool))(t)
		s.takes(pool.ID, taken)
	}
	return s, counted
}

// A claim that many full pools could serve asks a bounded number of them, and says so. If one pool has room, the claim
// asks this pool first, wherever it is in their order.
func TestReconcile_AsksFewOfManyPools(t *testing.T) {
	t.Parallel()
	const more = 6
	s, counted := fullPools(t, 28, mostAsked+more, "10.0.0.0/28", "10.0.0.0/28", gen.Claim("c", gen.OfClass("internal")))
	got := s.reconcile("c").Status.Conditions[0]
	if want := fmt.Sprintf("%d pools were asked, and %d were not", mostAsked, more); got.Reason != string(ipamv1alpha1.ReasonPoolExhausted) || !strings.HasPrefix(got.Message, want) {
		t.Errorf("the claim says %s: %.80q, want %s: %q", got.Reason, got.Message, ipamv1alpha1.ReasonPoolExhausted, want)
	}
	if counted.binds != mostAsked {
		t.Errorf("%d pools were asked, want %d", counted.binds, mostAsked)
	}
	must.Do(t, s.ledger.Release(t.Context(), ledger.ClaimID(fmt.Sprintf("taker-of-uid-of-p%03d", mostAsked+more-1))))
	counted.binds = 0
	if claim := s.reconcile("c"); claim.Status.Phase != ipamv1alpha1.ClaimBound || counted.binds != 1 {
		t.Errorf("the claim is %s after %d pools were asked, want %s by the one that has room", claim.Status.Phase, counted.binds, ipamv1alpha1.ClaimBound)
	}
}

// The address that a claim wants lies in more pools than a claim may ask, and is free only in the last pool. The claim
// gets it there.
func TestReconcile_FindsAFreeAddressAmongManyPools(t *testing.T) {
	t.Parallel()
	const last = mostAsked + 5
	first, second := gen.Claim("c", gen.OfClass("internal"), gen.Address("10.0.0.1")), gen.Claim("d", gen.OfClass("internal"), gen.Address("10.0.0.1"))
	s, _ := fullPools(t, 32, last+1, "10.0.0.0/28", "10.0.0.1/32", first, second)
	free := fmt.Sprintf("p%03d", last)
	must.Do(t, s.ledger.Release(t.Context(), ledger.ClaimID("taker-of-uid-of-"+free)))
	if got := s.reconcile("c").Status; got.Phase != ipamv1alpha1.ClaimBound || got.PoolRef.Name != free {
		t.Errorf("the claim is %s with %v, want %s by %s", got.Phase, got.Conditions, ipamv1alpha1.ClaimBound, free)
	}
	got := s.reconcile("d").Status.Conditions[0]
	if want := fmt.Sprintf("%d pools were asked, and 6 were not", mostAsked); got.Reason != string(ipamv1alpha1.ReasonAddressInUse) || !strings.HasPrefix(got.Message, want) {
		t.Errorf("the claim says %s: %.120q, want %s: %q", got.Reason, got.Message, ipamv1alpha1.ReasonAddressInUse, want)
	}
}

// A tenant has a thousand full pools, and more claims than may wait at them. Each pass asks a bounded number of pools,
// and the claims wait at MaxWaits pools together. A claim without a place says so, and gets a place when another claim
// has gone. When the workspace departs, all places are free.
func TestReconcile_BoundsTheWaitsOfAWorkspace(t *testing.T) {
	t.Parallel()
	const pools, waiting, claims = 1000, 3, 6
	var waiters []client.Object
	for n := range claims {
		waiters = append(waiters, gen.Claim(fmt.Sprintf("c%d", n), gen.OfClass("internal")))
	}
	s, counted := fullPools(t, 32, pools, "10.0.0.0/32", "10.0.0.0/32", waiters...)
	waits := noteWaits(&s.Ledger)
	s.MaxWaits = waiting * mostAsked
	const says = "this one waits at none"
	for n := range claims {
		counted.binds = 0
		claim := s.reconcile(fmt.Sprintf("c%d", n))
		got := claim.Status.Conditions[0]
		if over := n >= waiting; got.Reason != string(ipamv1alpha1.ReasonPoolExhausted) || strings.Contains(got.Message, says) != over {
			t.Errorf("%s says %s: %.200q, want %s, and that it waits at none: %t", claim.Name, got.Reason, got.Message, ipamv1alpha1.ReasonPoolExhausted, over)
		}
		if counted.binds != mostAsked {
			t.Errorf("%d pools were asked for %s, want %d", counted.binds, claim.Name, mostAsked)
		}
	}
	wait := func() (all int) {
		for pool := range s.ledger.Pools().All() {
			all += waits.count(pool.ID)
		}
		return all
	}
	if got := wait(); got != waiting*mostAsked {
		t.Errorf("the claims wait at %d pools, want %d", got, waiting*mostAsked)
	}
	s.abandon(requestIn("tenant", "c0"))
	if got := s.reconcile("c5").Status.Conditions[0].Message; strings.Contains(got, says) || wait() != waiting*mostAsked {
		t.Errorf("once another claim has gone, the claim says %.100q, and the claims wait at %d pools; want that it waits, and %d", got, wait(), waiting*mostAsked)
	}
	s.Departed("tenant")
	if len(s.waiting.places) > 0 || wait() > 0 {
		t.Errorf("when the workspace has gone, its places are %v, and claims wait at %d pools; want none", s.waiting.places, wait())
	}
}

// Claims without a place are requeued a minute later, or later still if there are many, so that all of them together
// make only a few passes a second.
func TestUntilTurn_GrowsWithTheNumberOfClaims(t *testing.T) {
	for over, want := range map[int]time.Duration{1: time.Minute, 240: time.Minute, 2400: 10 * time.Minute} {
		if got := untilTurn(over); got != want {
			t.Errorf("of %d claims each looks again after %v, want %v", over, got, want)
		}
	}
}
