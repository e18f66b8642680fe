package live

import (
	"maps"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Absence is for how long every census must lack a workspace before the workspace counts as gone, if its binding was
// not seen to be deleted. A shard that is restarted beside an empty cache server lists no bindings for some seconds.
const Absence = time.Minute

// lapse is how long an absence is remembered after the last verdict about its workspace. A caller that waits for an
// absence to be confirmed asks again within about a minute. Nobody asks about a workspace that is served again. So
// without lapse, two short absences would count as one long one.
const lapse = 5 * Absence

// Absences remember the workspaces that were found bound nowhere. The zero value is ready; safe for concurrent use.
type Absences struct {
	mu   sync.Mutex
	seen map[ledger.ClusterName]absence
}

// absence has the first and the last time at which a workspace was found bound nowhere.
type absence struct{ first, last time.Time }

// Confirm notes a verdict about a holder in a workspace. It reports whether all verdicts about that workspace have been
// Unbound for Absence or longer.
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
