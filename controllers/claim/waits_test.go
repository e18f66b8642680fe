package claim

import (
	"slices"
	"sync"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// lists notes at which pools claims were told to wait.
type lists struct {
	views.Waits

	mu sync.Mutex
	at map[ledger.PoolID][]ledger.ClaimID
}

// noteWaits returns the waits of a ledger, which are noted from then on.
func noteWaits(l *views.Ledger) *lists {
	w := &lists{Waits: l.Waits, at: map[ledger.PoolID][]ledger.ClaimID{}}
	l.Waits = w
	return w
}

func (w *lists) Add(r ledger.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.at[r.Pool], r.Holder.Claim) {
		w.at[r.Pool] = append(w.at[r.Pool], r.Holder.Claim)
	}
	w.Waits.Add(r)
}

func (w *lists) KeepOnly(claim ledger.ClaimID, at ...ledger.PoolID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for pool, claims := range w.at {
		if !slices.Contains(at, pool) {
			w.at[pool] = slices.DeleteFunc(claims, func(c ledger.ClaimID) bool { return c == claim })
		}
	}
	w.Waits.KeepOnly(claim, at...)
}

func (w *lists) Withdraw(claim ledger.ClaimID) { w.KeepOnly(claim) }

// count returns the number of claims that wait at a pool.
func (w *lists) count(pool ledger.PoolID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.at[pool])
}
