package space

import (
	"maps"
	"sync"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// MaxReservations is how many reservations one workspace may have that nobody has confirmed.
// Several Allocators that reserve at the same moment may exceed it by what is in flight.
const MaxReservations = 256

// Reserved are the reservations of each workspace.
type Reserved map[ledger.ClusterName]map[ledger.ClaimID]struct{}

// Add notes a reservation of a workspace.
func (r Reserved) Add(c ledger.ClusterName, id ledger.ClaimID) {
	if r[c] == nil {
		r[c] = map[ledger.ClaimID]struct{}{}
	}
	r[c][id] = struct{}{}
}

func (r Reserved) remove(c ledger.ClusterName, id ledger.ClaimID) {
	delete(r[c], id)
	if len(r[c]) == 0 {
		delete(r, c)
	}
}

// Reservations counts those of each workspace that nobody has confirmed: what the watch has
// seen in the ledger, and the calls in flight. The zero value is empty. It is safe for
// concurrent use.
type Reservations struct {
	mu     sync.Mutex
	stored Reserved
	calls  map[ledger.ClusterName]int
}

// Begin counts a call, or reports false if the workspace has too many reservations. One that
// is repeated takes none.
func (r *Reservations) Begin(c ledger.ClusterName, id ledger.ClaimID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, again := r.stored[c][id]; !again && len(r.stored[c])+r.calls[c] >= MaxReservations {
		return false
	}
	if r.calls == nil {
		r.calls = map[ledger.ClusterName]int{}
	}
	r.calls[c]++
	return true
}

// End counts a call no more.
func (r *Reservations) End(c ledger.ClusterName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls[c]--; r.calls[c] == 0 {
		delete(r.calls, c)
	}
}

// Seen notes that a reservation has come into the ledger, or has left it.
func (r *Reservations) Seen(c ledger.ClusterName, id ledger.ClaimID, there bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !there {
		r.stored.remove(c, id)
		return
	}
	if r.stored == nil {
		r.stored = Reserved{}
	}
	r.stored.Add(c, id)
}

// Has reports whether the ledger has a reservation.
func (r *Reservations) Has(c ledger.ClusterName, id ledger.ClaimID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, stored := r.stored[c][id]
	return stored
}

// Reset replaces what is known of the ledger.
func (r *Reservations) Reset(stored Reserved) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored = stored
}

// Len is how many the ledger has.
func (r *Reservations) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for ids := range maps.Values(r.stored) {
		n += len(ids)
	}
	return n
}
