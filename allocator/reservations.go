package allocator

import (
	"maps"
	"sync"
)

// MaxReservations is how many reservations one workspace may have that nobody has confirmed.
// Several Allocators that reserve at the same moment may exceed it by what is in flight.
const MaxReservations = 256

// reserved are the reservations of each workspace.
type reserved map[ClusterName]map[ClaimID]struct{}

func (r reserved) add(c ClusterName, id ClaimID) {
	if r[c] == nil {
		r[c] = map[ClaimID]struct{}{}
	}
	r[c][id] = struct{}{}
}

func (r reserved) remove(c ClusterName, id ClaimID) {
	delete(r[c], id)
	if len(r[c]) == 0 {
		delete(r, c)
	}
}

// reservations counts those of each workspace that nobody has confirmed: what the watch has
// seen in the ledger, and the calls in flight. The zero value is empty. It is safe for
// concurrent use.
type reservations struct {
	mu     sync.Mutex
	stored reserved
	calls  map[ClusterName]int
}

// begin counts a call, or reports false if the workspace has too many reservations. One that
// is repeated takes none.
func (r *reservations) begin(c ClusterName, id ClaimID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, again := r.stored[c][id]; !again && len(r.stored[c])+r.calls[c] >= MaxReservations {
		return false
	}
	if r.calls == nil {
		r.calls = map[ClusterName]int{}
	}
	r.calls[c]++
	return true
}

func (r *reservations) end(c ClusterName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls[c]--; r.calls[c] == 0 {
		delete(r.calls, c)
	}
}

// seen notes that a reservation has come into the ledger, or has left it.
func (r *reservations) seen(c ClusterName, id ClaimID, there bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !there {
		r.stored.remove(c, id)
		return
	}
	if r.stored == nil {
		r.stored = reserved{}
	}
	r.stored.add(c, id)
}

func (r *reservations) has(c ClusterName, id ClaimID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, stored := r.stored[c][id]
	return stored
}

// reset replaces what is known of the ledger.
func (r *reservations) reset(stored reserved) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored = stored
}

func (r *reservations) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for ids := range maps.Values(r.stored) {
		n += len(ids)
	}
	return n
}
