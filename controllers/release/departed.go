package release

import (
	"maps"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
)

// forgetDeparture is how long HasDeparted must not be called for a workspace until its
// departure is forgotten. A sweep calls it for each block of the workspace, and settle calls
// it for each hint, so a forgotten workspace has neither.
const forgetDeparture = 24 * time.Hour

// Departed notes that a workspace's binding was seen to go. Its blocks still
// have to be hinted at, one by one.
func (c *Controller) Departed(cluster allocator.ClusterName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.departed[cluster] = c.clock.Now()
	if c.clock.Since(c.pruned) < forgetDeparture {
		return
	}
	c.pruned = c.clock.Now()
	maps.DeleteFunc(c.departed, func(_ allocator.ClusterName, asked time.Time) bool {
		return c.clock.Since(asked) >= forgetDeparture
	})
}

// Arrived notes that a workspace is bound (again).
func (c *Controller) Arrived(cluster allocator.ClusterName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.departed, cluster)
	delete(c.absent, cluster)
}

// HasDeparted reports whether a workspace's binding was seen to go, and none came since.
func (c *Controller) HasDeparted(cluster allocator.ClusterName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, departed := c.departed[cluster]
	if departed {
		c.departed[cluster] = c.clock.Now()
	}
	return departed
}
