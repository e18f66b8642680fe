package space

import (
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const (
	// retireesKept is the least number of retired pools that are remembered, and half of the most. A
	// pool has to be remembered only as long as caches may still show it.
	retireesKept = 8192
)

// retirees are the pools that an Allocator, this one or another, has retired while the watch followed.
// A pool that is only missing when the ledger is read may have been lost.
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
