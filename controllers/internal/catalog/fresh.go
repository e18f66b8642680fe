package catalog

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// remembered is how long a pool is remembered. No cache is ever that late.
const remembered = time.Minute

// fresh are pools that this process makes Ready, for as long as the cache shows them as they were before.
// Users may see a Ready pool before the cache does. Without this memory, a claim by class that follows at
// once would get a block of another pool. The zero value is ready. It is safe for concurrent use.
type fresh struct {
	mu    sync.RWMutex
	pools map[types.UID]readied
}

type readied struct {
	pool *ipamv1alpha1.IPPool // in the version that was read
	at   time.Time
}

// Readied notes a pool that is in the ledger, and whose status is about to be written for the first time.
// The pool is as it was read but for its status.
func (c *Catalog) Readied(pool *ipamv1alpha1.IPPool) {
	now := time.Now()
	c.fresh.mu.Lock()
	defer c.fresh.mu.Unlock()
	if c.fresh.pools == nil {
		c.fresh.pools = map[types.UID]readied{}
	}
	for uid, known := range c.fresh.pools {
		if now.Sub(known.at) > remembered {
			delete(c.fresh.pools, uid)
		}
	}
	c.fresh.pools[pool.UID] = readied{pool.DeepCopy(), now}
}

// latest is a pool of a cache, or what is known to follow it.
func (f *fresh) latest(shown *ipamv1alpha1.IPPool) *ipamv1alpha1.IPPool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if known, ok := f.pools[shown.UID]; ok && known.pool.ResourceVersion == shown.ResourceVersion {
		return known.pool
	}
	return shown
}

func (f *fresh) latests(shown []ipamv1alpha1.IPPool) []*ipamv1alpha1.IPPool {
	list := pointers(shown)
	for i := range list {
		list[i] = f.latest(list[i])
	}
	return list
}
