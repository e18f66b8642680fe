package space

import (
	"maps"
	"slices"
	"sync"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Waits has the pools at which each claim waits, and at which each workspace waits. The zero value is empty. It is safe
// for concurrent use; its lock is taken after that of a space.
type Waits struct {
	mu sync.RWMutex
	at map[ledger.ClaimID][]ledger.PoolID           // where Withdraw looks; the wait there may be over
	of map[ledger.ClusterName]map[ledger.PoolID]int // how many claims of a workspace wait at a pool; none is 0
}

// enter notes that a claim begins to wait at its pool.
func (ws *Waits) enter(w *Waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.at == nil {
		ws.at, ws.of = map[ledger.ClaimID][]ledger.PoolID{}, map[ledger.ClusterName]map[ledger.PoolID]int{}
	}
	claim, pool := w.request.Holder.Claim, w.request.Pool
	if !slices.Contains(ws.at[claim], pool) {
		ws.at[claim] = append(ws.at[claim], pool)
	}
	if ws.of[w.cluster()] == nil {
		ws.of[w.cluster()] = map[ledger.PoolID]int{}
	}
	ws.of[w.cluster()][pool]++
}

// leave notes that a claim has left the list of its pool. Withdraw may still look there.
func (ws *Waits) leave(w *Waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	of := ws.of[w.cluster()]
	if of[w.request.Pool]--; of[w.request.Pool] == 0 {
		delete(of, w.request.Pool)
	}
	if len(of) == 0 {
		delete(ws.of, w.cluster())
	}
}

// Pools returns the pools at which claims of a workspace wait, in no order.
func (ws *Waits) Pools(c ledger.ClusterName) []ledger.PoolID {
	ws.mu.RLock()
	defer ws.mu.RUnlock()
	return slices.Collect(maps.Keys(ws.of[c]))
}

// any reports whether a claim of a workspace waits at any pool.
func (ws *Waits) any(c ledger.ClusterName) bool {
	ws.mu.RLock()
	defer ws.mu.RUnlock()
	return len(ws.of[c]) > 0
}

// Has reports whether a claim waits at any pool.
func (ws *Waits) Has(id ledger.ClaimID) bool {
	ws.mu.RLock()
	defer ws.mu.RUnlock()
	_, waits := ws.at[id]
	return waits
}

// KeepOnly notes that a claim waits only at these pools, and returns the other pools at which it has waited.
func (ws *Waits) KeepOnly(id ledger.ClaimID, at []ledger.PoolID) (left []ledger.PoolID) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var stay []ledger.PoolID
	for _, pool := range ws.at[id] {
		if slices.Contains(at, pool) {
			stay = append(stay, pool)
		} else {
			left = append(left, pool)
		}
	}
	if len(stay) == 0 {
		delete(ws.at, id)
		return left
	}
	ws.at[id] = stay
	return left
}
