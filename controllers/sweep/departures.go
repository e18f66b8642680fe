package sweep

import (
	"sync"

	"github.com/kcp-ipam/ipam/allocator"
)

// departures are the workspaces that departed since the sweeper last took them. Nothing is
// collected before collect. Safe for concurrent use.
type departures struct {
	mu       sync.Mutex
	clusters map[allocator.ClusterName]bool
	news     chan struct{} // nil before collect
}

// collect begins to collect. The channel tells when there is something to take.
func (d *departures) collect() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clusters, d.news = map[allocator.ClusterName]bool{}, make(chan struct{}, 1)
	return d.news
}

func (d *departures) add(cluster allocator.ClusterName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.news == nil {
		return
	}
	d.clusters[cluster] = true
	select {
	case d.news <- struct{}{}:
	default: // the sweeper is about to take it
	}
}

func (d *departures) take() map[allocator.ClusterName]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.clusters
	d.clusters = map[allocator.ClusterName]bool{}
	return taken
}
