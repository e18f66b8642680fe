package pool

import (
	"slices"
	"sync"
	"time"

	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/internal/wait"
)

// waiting has the child pools that have no block, each with the parent that it waits for. A child enters before it
// looks for its parent, so that no change is missed in between. The zero value is ready; safe for concurrent use.
type waiting struct {
	mu       sync.Mutex
	children *wait.List[mcreconcile.Request, parent, child]
}

// child is the wait of one child.
type child struct {
	id    ledger.ClaimID
	since time.Time          // when the child was made
	in    ledger.ClusterName // its workspace
	on    parent
}

// parent is what a child waits for: a pool, or any pool of a class. The pool is in the workspace with the path that the
// child's spec names, or in the child's own workspace.
type parent struct {
	in    ledger.ClusterName // the child's own workspace; empty with a path or a class
	path  string
	pool  string
	class string // empty: the child waits for one pool
}

func waitOf(pool *ipamv1alpha1.IPPool, in ledger.ClusterName) child {
	if class := pool.Spec.ParentClassName; class != "" {
		return child{id: ledger.ClaimID(pool.UID), since: pool.CreationTimestamp.Time, in: in, on: parent{class: class}}
	}
	ref := pool.Spec.ParentPoolRef
	on := parent{in: in, pool: ref.Name}
	if ref.ProjectRef != nil && ref.ProjectRef.Name != "" {
		on = parent{path: ref.ProjectRef.Name, pool: ref.Name}
	}
	return child{id: ledger.ClaimID(pool.UID), since: pool.CreationTimestamp.Time, in: in, on: on}
}

// lock locks the list, which it makes if there is none.
func (w *waiting) lock() {
	w.mu.Lock()
	if w.children == nil {
		w.children = wait.New[mcreconcile.Request, parent, child](inbox.Compare)
	}
}

// enter lets a child wait for its parent. If another child of this name was waiting, replaced is true, and former is
// the ID of that child.
func (w *waiting) enter(pool mcreconcile.Request, at child) (former ledger.ClaimID, replaced bool) {
	w.lock()
	defer w.mu.Unlock()
	if before := w.children.Get(pool); before != nil && before.Value.id != at.id {
		former, replaced = before.Value.id, true
	}
	w.children.Put(pool, string(at.in), at.since, at, at.on)
	return former, replaced
}

// leave ends the wait of a child, and returns the ID under which it waited. ok is false if it did not wait.
func (w *waiting) leave(pool mcreconcile.Request) (id ledger.ClaimID, ok bool) {
	w.lock()
	defer w.mu.Unlock()
	left := w.children.Get(pool)
	if left == nil {
		return "", false
	}
	w.children.Drop(pool)
	return left.Value.id, true
}

// on lists the children that wait for a pool of a workspace, oldest first.
func (w *waiting) on(in directory.Workspace, pool string) []mcreconcile.Request {
	return w.oldestFirst(parent{in: in.Cluster, pool: pool}, parent{path: in.Path, pool: pool})
}

// by lists the pools that wait for any pool of a class, oldest first.
func (w *waiting) by(class string) []mcreconcile.Request { return w.oldestFirst(parent{class: class}) }

func (w *waiting) oldestFirst(on ...parent) (found []mcreconcile.Request) {
	w.lock()
	defer w.mu.Unlock()
	for c := range w.children.OldestFirst(on...).All() {
		found = append(found, c.Key)
	}
	return found
}

// children lists the children that may wait for a pool of a workspace: for its name, or for a class that the pool
// names.
func (r *Reconciler) children(in directory.Workspace, pool *ipamv1alpha1.IPPool) []mcreconcile.Request {
	found := r.waiting.on(in, pool.Name)
	for _, class := range pool.Spec.ClassNames {
		for _, child := range r.waiting.by(class) {
			if in.Cluster == r.Directory.Platform().Cluster || in.Cluster == r.Directory.Ledger(child.ClusterName) {
				found = append(found, child)
			}
		}
	}
	return found
}

// named lists the children whose wait may end because a workspace has a path now, oldest first. The path may be that of
// the parent. It may also be the child's own, by which the parent admits the child.
func (w *waiting) named(workspace directory.Workspace) (found []mcreconcile.Request) {
	w.lock()
	defer w.mu.Unlock()
	for c := range w.children.OldestFirst(slices.Collect(w.children.Things())...).All() {
		switch on := c.Value.on; {
		case on.path != "" && on.path == workspace.Path, (on.path != "" || on.class != "") && c.Value.in == workspace.Cluster:
			found = append(found, c.Key)
		}
	}
	return found
}
