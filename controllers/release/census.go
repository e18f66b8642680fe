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

// forgetAbsence is the age at which the absence of a workspace is forgotten.
const forgetAbsence = time.Hour

// errUncounted says that no census answers the question yet. The caller asks again later.
var errUncounted = errors.New("there is no such census yet")

// census is one list of the bound workspaces.
type census struct {
	live.Census
	whole bool // it has every bound workspace
	begun time.Time
	// revision of the ledger when the census began: a block with a revision up to this one was bound before. Times would
	// not do: another replica has another clock.
	revision int64
}

// absence says since when the censuses lack a workspace.
type absence struct {
	first     time.Time // when the first census without the workspace began
	revision  int64     // of the ledger at that time
	confirmed bool      // by a second census
}

// censuses keeps the latest census, and the workspaces that censuses have found absent. Safe for concurrent use.
type censuses struct {
	options  *Options
	counting sync.Mutex // held while a census is taken

	mu       sync.Mutex
	latest   census
	tried    time.Time // when the latest census began, also if it failed
	absences map[ledger.ClusterName]absence
}

// absent reports whether the suspect's workspace is bound nowhere. Two censuses must lack the workspace. The first must
// begin after the block was bound. The second must not begin before the parameter then, and must begin late enough
// after the first; see apart. absent returns errUncounted if another census has to be taken later.
//
// All suspects share the censuses. So the number of censuses depends on how long workspaces go on leaving, and not on
// how many workspaces leave, or on how many claims they have.
//
// Claims that went with a binding do not come back with the next binding. So if two censuses show for one block that
// the workspace was absent, they show it for all blocks of the workspace that are not newer.
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

// lacks reports whether a census shows that the suspect's workspace is bound nowhere. A census without an endpoint, or
// of an endpoint slice that is younger than the block, shows that only if the workspace's binding was seen to go. If
// lacks reports false, a later census may show it.
func (c *censuses) lacks(known census, s *suspect) bool {
	return known.whole && !known.Bound[s.Cluster] &&
		(known.Endpoints > 0 && !s.predates(known.Since) || c.options.HasDeparted(s.Cluster))
}

// unseen is how many times Options.Absence the two censuses must be apart if nobody has seen the workspace's binding
// go: a shard that is started again beside an empty cache server lists no bindings for some seconds.
const unseen = 30

// apart returns the least time between the two censuses that find a workspace absent.
func (c *censuses) apart(cluster ledger.ClusterName) time.Duration {
	if c.options.HasDeparted(cluster) {
		return c.options.Absence
	}
	return unseen * c.options.Absence
}

// wait returns the time until a second census can confirm that a workspace is absent. It is not positive if no census
// has found the workspace absent, or if the second is due.
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

// served notes that a read has shown a workspace as bound. asked is when the read began. If a census has found the
// workspace absent before that, the absence ends.
func (c *censuses) served(cluster ledger.ClusterName, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if missed, ok := c.absences[cluster]; ok && !missed.first.After(asked) {
		delete(c.absences, cluster)
	}
}

// absence returns the absence of the suspect's workspace. It reports false if no census has found one since the block
// was bound.
func (c *censuses) absence(s *suspect) (absence, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	missed, ok := c.absences[s.Cluster]
	return missed, ok && s.revision <= missed.revision
}

// misses notes that a census lacks the suspect's workspace, and reports whether that confirms the absence that an
// earlier census has found.
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

// census returns the latest census if will(latest) is true. Otherwise it takes a new census: at most one in the time
// Options.Absence, and by one worker, so that a server that hangs leaves all other workers free. census returns
// errUncounted if none can be taken now, or if will is false for the new one, too.
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
