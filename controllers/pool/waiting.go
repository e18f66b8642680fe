package pool

import (
	"sync"
	"time"

	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
)

// waiting knows the child pools that have no block, and which parent each waits
// for. A child enters before it looks for its parent, so that no change slips
// between its look and its wait. The zero value is ready; safe for concurrent use.
type waiting struct {
	mu       sync.Mutex
	children map[mcreconcile.Request]wait
	parents  map[parent]map[mcreconcile.Request]bool // none that is empty
}

// wait is the wait of one child.
type wait struct {
	id    ledger.ClaimID
	since time.Time          // when the child was made
	in    ledger.ClusterName // its workspace
	on    parent
}

// parent is what a child waits for: a pool of a workspace, which the child's spec names by its path, or
// which is the child's own; or the pools of a class.
type parent struct {
	in    ledger.ClusterName // empty if the path says it, or the class
	path  string
	pool  string
	class string // of a pool by class, which waits for any pool of this class; else empty
}

func waitOf(child *ipamv1alpha1.IPPool, in ledger.ClusterName) wait {
	if class := child.Spec.ParentClassName; class != "" {
		return wait{id: ledger.ClaimID(child.UID), since: child.CreationTimestamp.Time, in: in, on: parent{class: class}}
	}
	ref := child.Spec.ParentPoolRef
	on := parent{in: in, pool: ref.Name}
	if ref.ProjectRef != nil && ref.ProjectRef.Name != "" {
		on = parent{path: ref.ProjectRef.Name, pool: ref.Name}
	}
	return wait{id: ledger.ClaimID(child.UID), since: child.CreationTimestamp.Time, in: in, on: on}
}

// enter has a child wait for its parent. If another child of this name has waited until now, replaced is
// true, and former is that child.
func (w *waiting) enter(child mcreconcile.Request, at wait) (former ledger.ClaimID, replaced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.children == nil {
		w.children = map[mcreconcile.Request]wait{}
		w.parents = map[parent]map[mcreconcile.Request]bool{}
	}
	before, waited := w.drop(child)
	w.children[child] = at
	if w.parents[at.on] == nil {
		w.parents[at.on] = map[mcreconcile.Request]bool{}
	}
	w.parents[at.on][child] = true
	return before.id, waited && before.id != at.id
}

// leave ends the child's wait, and says whose it was. ok is false if it did not wait.
func (w *waiting) leave(child mcreconcile.Request) (id ledger.ClaimID, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left, ok := w.drop(child)
	return left.id, ok
}

// drop ends the wait of a child, and returns it. The caller holds mu.
func (w *waiting) drop(child mcreconcile.Request) (wait, bool) {
	left, ok := w.children[child]
	if !ok {
		return wait{}, false
	}
	delete(w.children, child)
	if delete(w.parents[left.on], child); len(w.parents[left.on]) == 0 {
		delete(w.parents, left.on)
	}
	return left, true
}

// on lists the children that wait for a pool of a workspace.
func (w *waiting) on(in directory.Workspace, pool string) []mcreconcile.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []inbox.Waiter
	for _, at := range []parent{{in: in.Cluster, pool: pool}, {path: in.Path, pool: pool}} {
		for child := range w.parents[at] {
			found = append(found, inbox.Waiter{Request: child, Since: w.children[child].since})
		}
	}
	return inbox.OldestFirst(found)
}

// by lists the pools that wait for any pool of a class, oldest first.
func (w *waiting) by(class string) []mcreconcile.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	children := w.parents[parent{class: class}]
	found := make([]inbox.Waiter, 0, len(children))
	for child := range children {
		found = append(found, inbox.Waiter{Request: child, Since: w.children[child].since})
	}
	return inbox.OldestFirst(found)
}

// children lists the pools that may wait for a pool of a workspace: by its name, or by a class that it names.
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

// named lists the children whose wait the path of a workspace may end, oldest first: that of the parent, or their own,
// by which the parent admits them.
func (w *waiting) named(workspace directory.Workspace) []mcreconcile.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []inbox.Waiter
	for child, c := range w.children {
		if c.on.path != "" && c.on.path == workspace.Path || (c.on.path != "" || c.on.class != "") && c.in == workspace.Cluster {
			found = append(found, inbox.Waiter{Request: child, Since: c.since})
		}
	}
	return inbox.OldestFirst(found)
}
