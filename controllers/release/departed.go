package release

import (
	"maps"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// forgetDeparture is how long HasDeparted must not be called for a workspace until its
// departure is forgotten. A sweep calls it for each block of the workspace, and settle calls
// it for each hint, so a forgotten workspace has neither.
const forgetDeparture = 24 * time.Hour

// departure is that of a workspace whose binding was seen to go.
type departure struct {
	at    time.Time
	asked time.Time // the last call of HasDeparted
	back  bool      // another binding has come since
}

// Departed notes that a workspace's binding was seen to go. Its blocks still
// have to be hinted at, one by one.
func (c *Controller) Departed(cluster ledger.ClusterName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	c.departed[cluster] = departure{at: now, asked: now}
	if c.Clock.Since(c.pruned) < forgetDeparture {
		return
	}
	c.pruned = now
	maps.DeleteFunc(c.departed, func(_ ledger.ClusterName, d departure) bool {
		return c.Clock.Since(d.asked) >= forgetDeparture
	})
}

// Arrived notes that a workspace is bound (again).
func (c *Controller) Arrived(cluster ledger.ClusterName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d, ok := c.departed[cluster]; ok {
		d.back = true
		c.departed[cluster] = d
	}
	delete(c.absences, cluster)
}

// HasDeparted reports whether a workspace's binding was seen to go, and none came since.
func (c *Controller) HasDeparted(cluster ledger.ClusterName) bool {
	_, departed := c.departure(cluster)
	return departed
}

// departure says when a workspace's binding was seen to go; ok is false if it was not.
func (c *Controller) departure(cluster ledger.ClusterName) (at time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, ok := c.departed[cluster]
	if ok {
		d.asked = c.Clock.Now()
		c.departed[cluster] = d
	}
	return d.at, ok && !d.back
}

// departedOnce reports whether a binding of a workspace was seen to go, also if another has come since.
func (c *Controller) departedOnce(cluster ledger.ClusterName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, departed := c.departed[cluster]
	return departed
}
