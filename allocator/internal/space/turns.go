package space

import (
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// turns order the workspaces that wait for room in a pool. The one that was served longest ago
// is next, and among those that were not served yet, the one with the oldest claim. So many old
// claims of one workspace do not keep all others waiting. A workspace that begins to wait comes
// after all that have waited longer for their turn. The zero value is empty.
type turns struct {
	now   uint64
	waits map[ledger.ClusterName]*workspaceTurn
}

// enter counts a waiter of a workspace, and returns the place of the workspace.
func (t *turns) enter(c ledger.ClusterName) *workspaceTurn {
	if t.waits == nil {
		t.waits = map[ledger.ClusterName]*workspaceTurn{}
	}
	w := t.waits[c]
	if w == nil {
		w = &workspaceTurn{served: t.now}
		t.waits[c] = w
	}
	w.waiters++
	return w
}

// leave ends enter for one waiter. A workspace without waiters is forgotten.
func (t *turns) leave(c ledger.ClusterName) {
	if w := t.waits[c]; w != nil {
		if w.waiters--; w.waiters == 0 {
			delete(t.waits, c)
		}
	}
}

// serve notes that a workspace has had its turn. Its lanes have to be put in their places for that;
// see fix.
func (t *turns) serve(w *workspaceTurn) {
	t.now++
	w.served = t.now
}
