package live

import (
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Absence is for how long censuses must lack a workspace until it is gone, if nobody has seen its binding go. A shard that is
// started again beside an empty cache server lists no bindings for some seconds.
const Absence = time.Minute

// Absences remember the workspaces that were found bound nowhere, and when first. The zero value is ready; safe for concurrent use.
type Absences struct {
	mu    sync.Mutex
	first map[ledger.ClusterName]time.Time
}

// Confirm notes a verdict about a holder of a workspace. It reports whether the workspace is bound nowhere by two answers in a row,
// Absence apart.
func (a *Absences) Confirm(cluster ledger.ClusterName, verdict Verdict, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if verdict != Unbound {
		delete(a.first, cluster)
		return false
	}
	if a.first == nil {
		a.first = map[ledger.ClusterName]time.Time{}
	}
	if _, ok := a.first[cluster]; !ok {
		a.first[cluster] = now
	}
	return now.Sub(a.first[cluster]) >= Absence
}
