package space

import (
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const (
	// retireesKept is how many retired pools are remembered at least, and half of how
	// many at most. It has to outlast what caches still show, not more.
	retireesKept = 8192
)

// retirees are pools that left the ledger in good order: retired by an allocator, here
// or elsewhere. What merely is not there when the ledger is read may have been lost.
type retirees struct {
	recent, former map[ledger.PoolID]struct{}
}

func (r *retirees) has(id ledger.PoolID) bool {
	_, recent := r.recent[id]
	_, former := r.former[id]
	return recent || former
}

func (r *retirees) add(id ledger.PoolID) {
	if r.recent == nil || len(r.recent) >= retireesKept {
		r.recent, r.former = map[ledger.PoolID]struct{}{}, r.recent
	}
	r.recent[id] = struct{}{}
}

func (r *retirees) forget(id ledger.PoolID) {
	delete(r.recent, id)
	delete(r.former, id)
}
