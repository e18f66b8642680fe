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
func (i *Hints) Departed(cluster ledger.ClusterName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.clock.Now()
	i.departed[cluster] = departure{at: now, asked: now}
	if i.clock.Since(i.pruned) < forgetDeparture {
		return
	}
	i.pruned = now
	maps.DeleteFunc(i.departed, func(_ ledger.ClusterName, d departure) bool {
		return i.clock.Since(d.asked) >= forgetDeparture
	})
}

// returned notes that a workspace is bound (again).
func (i *Hints) returned(cluster ledger.ClusterName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if d, ok := i.departed[cluster]; ok {
		d.back = true
		i.departed[cluster] = d
	}
}

// HasDeparted reports whether a workspace's binding was seen to go, and none came since.
func (i *Hints) HasDeparted(cluster ledger.ClusterName) bool {
	_, departed := i.departure(cluster)
	return departed
}

// departure says when a workspace's binding was seen to go; ok is false if it was not.
func (i *Hints) departure(cluster ledger.ClusterName) (at time.Time, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	d, ok := i.departed[cluster]
	if ok {
		d.asked = i.clock.Now()
		i.departed[cluster] = d
	}
	return d.at, ok && !d.back
}

// departedOnce reports whether a binding of a workspace was seen to go, also if another has come since.
func (i *Hints) departedOnce(cluster ledger.ClusterName) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, departed := i.departed[cluster]
	return departed
}
