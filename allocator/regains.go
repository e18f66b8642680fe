package allocator

import (
	"github.com/kcp-ipam/ipam/allocator/internal/space"
)

// Regains reports whether a request would get a cooling block of its pool back, as known
// here: one that an object of the holder's name had before.
func (a *Allocator) Regains(r Request) bool {
	p, ok := a.table.Find(r.Pool)
	if !ok {
		return false
	}
	p.In.Lock()
	defer p.In.Unlock()
	if p.State != PoolOpen || p.In.Frozen() != space.NotFrozen {
		return false
	}
	_, ok = p.FormerBlock(r)
	return ok
}
