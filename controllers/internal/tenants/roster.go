package tenants

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// grace is how long a workspace may take from being bound to being engaged.
const grace = time.Minute

// listing is how long the claims and records of an endpoint may take to be listed: two minutes, if there are a million.
const listing = 10 * time.Minute

// roster counts which workspaces are bound, and which of them are engaged. It is safe for
// concurrent use.
type roster struct {
	clock   clock.PassiveClock
	engaged func(multicluster.ClusterName) bool // whether the controllers have engaged a workspace

	mu      sync.Mutex
	bound   map[multicluster.ClusterName]bool
	missing map[multicluster.ClusterName]absence // workspaces that are bound and not engaged
	filled  map[string]bool                      // endpoints whose caches are filled, by URL
	awaits  map[string]await                     // the next list of each endpoint in the slice, by URL
	listed  bool                                 // at some time, the replica was ready as far as lists go
}

// kindBindings names the first list that an endpoint sends.
const kindBindings = "APIBindings"

// await describes the next list of an endpoint.
type await struct {
	kinds    string        // empty: the endpoint has sent all lists
	since    time.Time     // when the endpoint began to lack a list
	patience time.Duration // how long a missing list does not count
}

// absence describes a workspace that is bound and not engaged.
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
		awaits:  map[string]await{},
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

// await notes the next list of an endpoint, which the replica needs to serve the endpoint's workspaces. If kinds is
// empty, it needs no further list. A replica that was ready before allows a minute for each endpoint that is new, or is
// opened again: otherwise the first tenant of a shard would make all replicas unready at once.
func (r *roster) await(url, kinds string, patience time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := await{kinds: kinds, since: r.clock.Now(), patience: patience}
	if before := r.awaits[url]; before.kinds != "" {
		next.since = before.since
	}
	if r.listed {
		next.patience = max(patience, grace)
	}
	r.awaits[url] = next
}

// knows reports whether all endpoints of the slice have listed their APIBindings.
func (r *roster) knows() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.awaits {
		if a.kinds == kindBindings {
			return false
		}
	}
	return true
}

// unlist forgets an endpoint that the slice does not list any more.
func (r *roster) unlist(url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.awaits, url)
}

// unlisted returns an error if every endpoint of the slice lacks a list for longer than its patience. The caller holds
// mu.
func (r *roster) unlisted() error {
	var err error
	for _, url := range slices.Sorted(maps.Keys(r.awaits)) {
		a := r.awaits[url]
		waited := r.clock.Since(a.since)
		if a.kinds == "" || waited < a.patience {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("the %s of endpoint %s have not been listed yet, for %s", a.kinds, url, waited.Round(time.Second))
		}
	}
	return err
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

// Ready returns an error while no endpoint of the slice has listed its APIBindings, and the pools of the workspaces
// that are bound there. Such a replica can serve nobody, and a rolling update stops at it. One endpoint is enough: a
// shard that is away must not end the service for the workspaces of other shards. Metrics show the missing shard.
//
// Ready also returns an error if workspaces are bound, and none of them could be engaged for some time. It is a
// readiness check, the same on a leader and on a standby: a standby also engages the workspaces, so that their caches
// are filled.
//
// A single workspace that cannot be engaged leaves the replica ready: a tenant with a broken workspace must not end the
// service for all others, and another replica would not serve that workspace either. Metrics show it.
func (p *Provider) Ready(*http.Request) error {
	if !p.followed.Load() {
		return fmt.Errorf("endpoint slice %s has not been listed yet", p.opts.Slice)
	}
	return p.roster.ready()
}

func (r *roster) ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.unlisted(); err != nil {
		return err
	}
	r.listed = true
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
		return fmt.Errorf("%d of %d bound workspaces are not engaged after %s: the caches of their endpoint are not filled",
			late, len(r.bound), grace)
	}
	return fmt.Errorf("%d of %d bound workspaces are not engaged after %s; workspace %s: %w",
		late, len(r.bound), grace, first, why)
}
