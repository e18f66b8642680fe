package pool

import (
	"errors"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// Children wait for a parent by its workspace and name, wherever they are themselves.
func TestWaiting_FindsTheChildrenOfAParent(t *testing.T) {
	var (
		w    waiting
		a, b = directory.Workspace{Cluster: "a", Path: "root:a"}, directory.Workspace{Cluster: "b", Path: "root:b"}
		wait = func(in ledger.ClusterName, name, parentIn, parent string, made time.Time) mcreconcile.Request {
			child := gen.Pool(name, gen.ChildOf(parent, 24), gen.Created(made))
			if parentIn != "" {
				child.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: parentIn}
			}
			request := inbox.Request(multicluster.ClusterName(in), client.ObjectKeyFromObject(child))
			w.enter(request, waitOf(child, in))
			return request
		}
		expect = func(what string, got []mcreconcile.Request, want ...mcreconcile.Request) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Errorf("%s wakes %v, want %v", what, got, want)
			}
		}
	)
	now := time.Now()
	young := wait("a", "young", "", "p", now)
	old := wait("a", "old", "", "p", now.Add(-time.Second))
	foreign := wait("b", "foreign", "root:a", "p", now.Add(time.Second))
	elsewhere := wait("b", "elsewhere", "", "p", now)

	expect("a's pool p", w.on(a, "p"), old, young, foreign)
	expect("b's pool p", w.on(b, "p"), elsewhere)
	expect("a's pool q", w.on(a, "q"))
	expect("a workspace whose path is not known", w.on(directory.Workspace{Cluster: "c"}, "p"))
	expect("the name of a", w.named(a), foreign)
	expect("the name of b", w.named(b), foreign)
	w.leave(old)
	w.leave(foreign)
	expect("a's pool p, which two have left,", w.on(a, "p"), young)
}

// withdrawals is a ledger that notes which claims were withdrawn.
type withdrawals struct {
	views.Waits
	who []ledger.ClaimID
}

func (w *withdrawals) Withdraw(id ledger.ClaimID) { w.who = append(w.who, id) }

// The workspace of a child went with its endpoint. When the child is woken, its wait ends, also in the ledger:
// otherwise the ledger would hold room for it again and again.
func TestWaiting_EndsWithTheWorkspace(t *testing.T) {
	alloc := &withdrawals{}
	r := &Reconciler{Options: Options{Ledger: views.Ledger{Waits: alloc}}, clusters: testbed.Clusters{}}
	child := gen.Pool("k", gen.ChildOf("p", 24))
	request := inbox.Request("a", client.ObjectKeyFromObject(child))
	r.waiting.enter(request, waitOf(child, "a"))
	for range 2 {
		if _, err := r.Reconcile(t.Context(), request); !errors.Is(err, multicluster.ErrClusterNotFound) {
			t.Errorf("a pool of a workspace that is not there: %v", err)
		}
	}
	if left := r.waiting.on(directory.Workspace{Cluster: "a"}, "p"); len(left) > 0 || !slices.Equal(alloc.who, []ledger.ClaimID{"uid-of-k"}) {
		t.Errorf("%v wait, and %v were withdrawn; want nobody, and the child once", left, alloc.who)
	}
}

// If a child enters under the name of another child that waits, enter returns the ID of that other child.
func TestWaiting_ReturnsTheReplacedChild(t *testing.T) {
	var w waiting
	first, second := gen.Pool("k", gen.ChildOf("p", 24)), gen.Pool("k", gen.ChildOf("q", 24))
	second.UID = "another"
	request := inbox.Request("a", client.ObjectKeyFromObject(first))
	if former, replaced := w.enter(request, waitOf(first, "a")); replaced {
		t.Errorf("the first replaces %q, want nobody", former)
	}
	if former, replaced := w.enter(request, waitOf(second, "a")); !replaced || former != "uid-of-k" {
		t.Errorf("the second replaces %q, %t, want the first", former, replaced)
	}
	if former, replaced := w.enter(request, waitOf(second, "a")); replaced {
		t.Errorf("the second, again, replaces %q, want nobody", former)
	}
}
