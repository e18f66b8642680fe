package claim

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// What a claim waits for ends with its workspace, here and in the ledger, whoever was seen
// to go: else room would be held for it again and again.
func TestWaiting_EndsWithTheWorkspace(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(t *testing.T, r *Reconciler){
		"departed": func(_ *testing.T, r *Reconciler) { r.Departed("a") },
		"woken": func(t *testing.T, r *Reconciler) {
			if _, err := r.Reconcile(t.Context(), requestIn("a", "x")); !errors.Is(err, multicluster.ErrClusterNotFound) {
				t.Errorf("a claim of a workspace that is not there: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledger := &withdrawals{}
			r := &Reconciler{Options: Options{Ledger: views.Ledger{Waits: ledger}, Directory: directory.New(directory.Workspace{Cluster: "p", Path: "root:ipam"})}, clusters: testbed.Clusters{}}
			class := topic{kind: classTopic, name: "c"}
			r.waiting.enter(requestIn("a", "x"), gen.Claim("x"), []topic{class})
			r.waiting.enter(requestIn("b", "x"), gen.Claim("x"), []topic{class})
			ends(t, r)
			if left := r.waiting.on(class); len(left) != 1 || left[0] != requestIn("b", "x") {
				t.Errorf("%v wait, want that of the other workspace alone", left)
			}
			if ledger.count != 1 {
				t.Errorf("%d withdrawn from the ledger, want one", ledger.count)
			}
		})
	}
}

// lists notes at which pools claims were told to wait.
type lists struct {
	views.Waits

	mu sync.Mutex
	at map[ledger.PoolID][]ledger.ClaimID
}

// agenda notes which claims are to look again later.
type agenda struct {
	inbox.Queue
	later []string
}

// noteLooks replaces the queue of a scene by one that notes these claims.
func noteLooks(s *scene) *agenda {
	a := &agenda{Queue: s.Queue}
	s.Queue = a
	return a
}

func (a *agenda) AddAfter(claim mcreconcile.Request, after time.Duration) {
	a.later = append(a.later, claim.Name)
	a.Queue.AddAfter(claim, after)
}

// noteWaits returns the waits of a ledger, which are noted from then on.
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

// TestWaiting_Replaced: a claim that waits, and whose name another claim has by now, leaves the ledger's
// waiting lists, also if it was replaced during the pass that entered it there.
func TestWaiting_Replaced(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	if _, err := s.ledger.Bind(t.Context(), ledger.Request{
		Pool: "uid-of-p", Length: 24, Holder: ledger.Holder{Claim: "x", Cluster: "tenant", Namespace: "default", Name: "x"},
	}); err != nil {
		t.Fatal(err)
	}
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
		_, _ = s.Reconcile(t.Context(), requestIn("tenant", "c")) // that the first is gone is no matter here
	}
	if n := waits.count("uid-of-p"); n != 0 {
		t.Errorf("%d claims wait for room in the pool, want none: one is gone, and its successor asks for another pool", n)
	}
}
