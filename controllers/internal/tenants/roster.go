package tenants

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// grace is how long a workspace may take from being bound to being engaged.
const grace = time.Minute

// roster counts which workspaces are bound, and which of them are engaged. It is safe for
// concurrent use.
type roster struct {
	clock   clock.PassiveClock
	engaged func(multicluster.ClusterName) bool // as of now

	mu      sync.Mutex
	bound   map[multicluster.ClusterName]bool
	missing map[multicluster.ClusterName]absence // those that are bound and not engaged
	filled  map[string]bool                      // endpoints, by URL
}

// absence is that of a workspace which ought to be engaged.
type absence struct {
	since time.Time
	err   error // of the last attempt; nil before the first
}

func newRoster(c clock.PassiveClock, engaged func(multicluster.ClusterName) bool) *roster {
	return &roster{
		clock:   c,
		engaged: engaged,
		bound:   map[multicluster.ClusterName]bool{},
		missing: map[multicluster.ClusterName]absence{},
		filled:  map[string]bool{},
	}
}

// fill notes whether the caches of an endpoint are filled.
func (r *roster) fill(url string, filled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if filled {
		r.filled[url] = true
	} else {
		delete(r.filled, url)
	}
	filledEndpoints.Set(float64(len(r.filled)))
}

// bind notes whether a workspace is bound.
func (r *roster) bind(name multicluster.ClusterName, bound bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bound {
		r.bound[name] = true
	} else {
		delete(r.bound, name)
	}
	r.count(name)
}

// recount notes that an engagement has begun or ended.
func (r *roster) recount(name multicluster.ClusterName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(name)
}

// fail notes why a workspace could not be engaged.
func (r *roster) fail(name multicluster.ClusterName, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if missed, ok := r.missing[name]; ok {
		missed.err = err
		r.missing[name] = missed
	}
}

// coming reports whether a workspace is bound that was not tried to be engaged yet.
func (r *roster) coming() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, missed := range r.missing {
		if missed.err == nil {
			return true
		}
	}
	return false
}

// count brings missing and the metrics up to date. The caller holds mu.
func (r *roster) count(name multicluster.ClusterName) {
	_, missed := r.missing[name]
	switch misses := r.bound[name] && !r.engaged(name); {
	case misses && !missed:
		r.missing[name] = absence{since: r.clock.Now()}
	case missed && !misses:
		if delete(r.missing, name); len(r.missing) == 0 {
			r.missing = map[multicluster.ClusterName]absence{} // an emptied map keeps its room, which after a start is for all
		}
	}
	boundWorkspaces.Set(float64(len(r.bound)))
	engagedWorkspaces.Set(float64(len(r.bound) - len(r.missing)))
}

// Ready returns an error if workspaces are bound, and none of them could be engaged for some
// time. It is a readiness check, the same on a leader and on a standby, which engages the
// workspaces to have their caches filled.
//
// One that cannot be engaged leaves the replica ready: a tenant whose workspace is broken must
// not take the service from all others, and another replica would not serve it either. The
// metrics tell of it. A replica that serves nobody loses nothing by not being ready, and an
// update that makes it so stops there.
func (p *Provider) Ready(*http.Request) error { return p.roster.ready() }

func (r *roster) ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.missing) < len(r.bound) {
		return nil
	}
	late, first, why := 0, multicluster.ClusterName(""), error(nil)
	for name, missed := range r.missing {
		if r.clock.Since(missed.since) < grace {
			continue
		}
		late++
		if first == "" || name < first {
			first, why = name, missed.err
		}
	}
	if late == 0 {
		return nil
	}
	if why == nil {
		return fmt.Errorf("%d of %d bound workspaces are not engaged after %s: the caches of their endpoint are not filled", late, len(r.bound), grace)
	}
	return fmt.Errorf("%d of %d bound workspaces are not engaged after %s; workspace %s: %w", late, len(r.bound), grace, first, why)
}
