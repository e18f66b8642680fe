package space

import (
	"slices"
	"sync"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Waits are the pools at which each claim waits. The zero value is empty. It is safe for concurrent use; its lock is
// taken after that of a space.
type Waits struct {
	mu sync.RWMutex
	at map[ledger.ClaimID][]ledger.PoolID
}

// remember notes where a claim waits, for Withdraw.
func (ws *Waits) remember(w *Waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.at == nil {
		ws.at = map[ledger.ClaimID][]ledger.PoolID{}
	}
	claim, pool := w.request.Holder.Claim, w.request.Pool
	if !slices.Contains(ws.at[claim], pool) {
		ws.at[claim] = append(ws.at[claim], pool)
	}
}

// Has reports whether a claim waits at any pool.
func (ws *Waits) Has(id ledger.ClaimID) bool {
	ws.mu.RLock()
	defer ws.mu.RUnlock()
	_, waits := ws.at[id]
	return waits
}

// KeepOnly notes that a claim waits at no pools but these, and returns the others where it has
// waited.
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
