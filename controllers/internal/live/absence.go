package live

import (
	"maps"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Absence is for how long censuses must lack a workspace until it is gone, if nobody has seen its binding go. A shard
// that is started again beside an empty cache server lists no bindings for some seconds.
const Absence = time.Minute

// lapse is how long after the last look at an absent workspace its absence is forgotten. All who confirm one look again
// within about a minute; nobody looks at a workspace that is served again, so that two short absences would count as a
// long one.
const lapse = 5 * Absence

// Absences remember the workspaces that were found bound nowhere. The zero value is ready; safe for concurrent use.
type Absences struct {
	mu   sync.Mutex
	seen map[ledger.ClusterName]absence
}

// absence is when a workspace was found bound nowhere first and last.
type absence struct{ first, last time.Time }

// Confirm notes a verdict about a holder of a workspace. It reports whether the workspace is bound nowhere by all
// answers since one that is Absence ago, or longer.
func (a *Absences) Confirm(cluster ledger.ClusterName, verdict Verdict, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if verdict != Unbound {
		delete(a.seen, cluster)
		return false
	}
	maps.DeleteFunc(a.seen, func(_ ledger.ClusterName, of absence) bool { return now.Sub(of.last) > lapse })
	known, ok := a.seen[cluster]
	if !ok {
		known.first = now
	}
	known.last = now
	if a.seen == nil {
		a.seen = map[ledger.ClusterName]absence{}
	}
	a.seen[cluster] = known
	return now.Sub(known.first) >= Absence
}
