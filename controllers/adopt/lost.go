package adopt

import (
	"maps"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

func (a *Adopter) isLost(id ledger.PoolID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, lost := a.lost[id]
	return lost
}

// losses lists the pools that are lost.
func (a *Adopter) losses() []ledger.PoolID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.lost))
}

// lose remembers that a pool is lost.
func (a *Adopter) lose(id ledger.PoolID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.lost[id]; !known {
		a.lost[id] = time.Time{}
	}
	frozen.Set(float64(len(a.lost)))
}

// wasRetired reports whether a pass has found that a pool was retired before the loss.
func (a *Adopter) wasRetired(id ledger.PoolID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.retired[id]
}

// retire notes that a lost pool was retired before the loss: it lacks nothing.
func (a *Adopter) retire(id ledger.PoolID) {
	a.forget(func(lost ledger.PoolID) bool { return lost == id })
	a.mu.Lock()
	defer a.mu.Unlock()
	a.retired[id] = true
}

// forget forgets that some of the pools were lost.
func (a *Adopter) forget(some func(id ledger.PoolID) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.retired, func(id ledger.PoolID, _ bool) bool { return some(id) })
	maps.DeleteFunc(a.lost, func(id ledger.PoolID, _ time.Time) bool {
		gone := some(id)
		if gone {
			a.tries.Forget(id)
		}
		return gone
	})
	frozen.Set(float64(len(a.lost)))
}

// postpone makes each lost pool wait for the next pass, unless this one resumes it: the longer, the more passes did not. A pass reads all
// that is published, and some pools nobody can mend. A pass that fails for all pools makes none wait longer.
func (a *Adopter) postpone() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.lost {
		a.lost[id] = a.clock.Now().Add(a.tries.When(id))
	}
}

// wait returns the time until a pass may begin for the first of some pools, a minute at most. A pool that was not lost before does not wait.
func (a *Adopter) wait(of ...ledger.PoolID) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := longest
	for _, id := range of {
		first = min(first, a.lost[id].Sub(a.clock.Now()))
	}
	return first
}

// Named ends the wait of the lost pools: they may lack nothing but the path that a workspace has now. Safe for concurrent use.
func (a *Adopter) Named(directory.Workspace) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.lost {
		a.lost[id] = time.Time{}
	}
}
