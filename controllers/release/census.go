package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// forgetAbsence is when a workspace that was found absent is forgotten.
const forgetAbsence = time.Hour

// errUncounted: no census says what is asked. It is asked again later.
var errUncounted = errors.New("there is no such census yet")

// census says who was bound when.
type census struct {
	live.Census
	whole bool // it lacks nobody
	begun time.Time
	// revision of the ledger: what was committed up to there was bound before the census
	// began. Times would not do, as another replica has another clock.
	revision int64
}

// absence is what the censuses say of a workspace that they lack.
type absence struct {
	first     time.Time // when the first of them began
	revision  int64     // of the ledger at that time
	confirmed bool      // by a second one
}

// censuses are those that a Controller takes, with its options. Safe for concurrent use.
type censuses struct {
	options  *Options
	counting sync.Mutex // held while a census is taken

	mu       sync.Mutex
	latest   census
	tried    time.Time // when the latest census began, also if it failed
	absences map[ledger.ClusterName]absence
}

// absent reports whether the suspect's workspace is bound nowhere: two censuses from then on lack
// it, with time between, and the block was bound before the first. All suspects share the censuses. So
// their number depends on how long workspaces go on leaving, and not on how many leave, or with
// how many claims. errUncounted: ask again later.
//
// What is gone with a workspace's binding does not come back with the next binding. So what two
// censuses say of one block holds for all blocks of the workspace that are as old.
func (c *censuses) absent(ctx context.Context, s *suspect, then time.Time) (bool, error) {
	missed, ok := c.absence(s)
	if ok && missed.confirmed {
		return true, nil
	}
	latest, err := c.census(ctx, func(known census) bool {
		return known.revision >= s.revision && !known.begun.Before(then) &&
			(!ok || known.begun.Sub(missed.first) >= c.apart(s.Cluster)) &&
			(c.lacks(known, s) || c.options.Clock.Since(known.begun) < c.options.Absence)
	})
	switch {
	case err != nil:
		return false, err
	case !latest.whole, latest.Bound[s.Cluster]:
		return false, nil
	case c.lacks(latest, s) && c.misses(s, latest):
		return true, nil
	}
	return false, errUncounted
}

// lacks reports whether a census says that the suspect's workspace is bound nowhere. That it has
// no endpoint, or one of a younger endpoint slice, says so only of a workspace that was seen to go.
// Where it does not say so, a later census may.
func (c *censuses) lacks(known census, s *suspect) bool {
	return known.whole && !known.Bound[s.Cluster] &&
		(known.Endpoints > 0 && !s.predates(known.Since) || c.options.HasDeparted(s.Cluster))
}

// unseen is how many times as long a workspace must be absent if nobody has seen its binding go. A shard that is
// started again beside an empty cache server lists no bindings for some seconds.
const unseen = 30

// apart returns the time between the two censuses that find a workspace absent.
func (c *censuses) apart(cluster ledger.ClusterName) time.Duration {
	if c.options.HasDeparted(cluster) {
		return c.options.Absence
	}
	return unseen * c.options.Absence
}

// wait returns the time until a second census can confirm that a workspace is absent, if one has found it so.
func (c *censuses) wait(cluster ledger.ClusterName) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	missed, ok := c.absences[cluster]
	if !ok {
		return 0
	}
	return missed.first.Add(c.apart(cluster)).Sub(c.options.Clock.Now())
}

// Arrived notes that a workspace is bound (again).
func (c *Controller) Arrived(cluster ledger.ClusterName) {
	c.returned(cluster)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.absences, cluster)
}

// served notes that a server has shown a workspace as bound, by a read that began then. It ends the absence that a
// census found before.
func (c *censuses) served(cluster ledger.ClusterName, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if missed, ok := c.absences[cluster]; ok && !missed.first.After(asked) {
		delete(c.absences, cluster)
	}
}

// absence returns what is known of the absence of the suspect's workspace since its block was bound.
func (c *censuses) absence(s *suspect) (absence, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	missed, ok := c.absences[s.Cluster]
	return missed, ok && s.revision <= missed.revision
}

// misses notes that a census lacks the suspect's workspace, and reports whether it is the second.
func (c *censuses) misses(s *suspect, latest census) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	missed, ok := c.absences[s.Cluster]
	if !ok || s.revision > missed.revision {
		maps.DeleteFunc(c.absences, func(_ ledger.ClusterName, a absence) bool {
			return c.options.Clock.Since(a.first) > forgetAbsence
		})
		missed = absence{first: latest.begun, revision: latest.revision}
	}
	missed.confirmed = latest.begun.Sub(missed.first) >= c.apart(s.Cluster)
	c.absences[s.Cluster] = missed
	return missed.confirmed
}

// census returns the latest census if it will do, else a new one. There is a new one at most as
// often as two must be apart, and one worker takes it, so that a server that hangs leaves all
// other workers free.
func (c *censuses) census(ctx context.Context, will func(census) bool) (census, error) {
	c.mu.Lock()
	latest, tried := c.latest, c.tried
	c.mu.Unlock()
	if !latest.begun.IsZero() && will(latest) {
		return latest, nil
	}
	if c.options.Clock.Since(tried) < c.options.Absence || !c.counting.TryLock() {
		return census{}, errUncounted
	}
	defer c.counting.Unlock()
	next := census{begun: c.options.Clock.Now(), revision: c.options.Ledger.Blocks.Revision()}
	var err error
	next.Census, next.whole, err = c.options.Oracle.Census(ctx)
	c.mu.Lock()
	c.tried = next.begun
	if err == nil {
		c.latest = next
		maps.DeleteFunc(c.absences, func(cluster ledger.ClusterName, _ absence) bool { return next.Bound[cluster] })
	}
	c.mu.Unlock()
	switch {
	case err != nil:
		return census{}, fmt.Errorf("list the bound workspaces: %w", err)
	case !will(next):
		return census{}, errUncounted
	}
	return next, nil
}
