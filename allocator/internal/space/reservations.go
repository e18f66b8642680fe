package space

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// MaxReservations is how many unconfirmed reservations one workspace may have. Several
// Allocators that reserve at the same moment may exceed it by the calls in flight.
const MaxReservations = 256

// minTold is how many answers are remembered before old ones are looked for.
const minTold = 1024

// Reserved are the reservations in the ledger, of each workspace and of each block. The zero value is
// empty.
type Reserved struct {
	of map[ledger.ClusterName]map[ledger.ClaimID]struct{}
	at map[Position][]ledger.ClaimID
}

// Put notes the block at a place. Its reservations are those of its holders.
func (r *Reserved) Put(at Position, block store.Record) {
	r.remove(at)
	for _, h := range block.Holdings {
		if cluster, ok := ledger.ReservedBy(h.Claim); ok {
			r.add(at, ledger.ClusterName(strings.Clone(string(cluster))), ledger.ClaimID(strings.Clone(string(h.Claim))))
		}
	}
}

func (r *Reserved) add(at Position, c ledger.ClusterName, id ledger.ClaimID) {
	if r.of == nil {
		r.of, r.at = map[ledger.ClusterName]map[ledger.ClaimID]struct{}{}, map[Position][]ledger.ClaimID{}
	}
	if r.of[c] == nil {
		r.of[c] = map[ledger.ClaimID]struct{}{}
	}
	r.of[c][id] = struct{}{}
	r.at[at] = append(r.at[at], id)
}

func (r *Reserved) remove(at Position) {
	ids, ok := r.at[at]
	if !ok {
		return
	}
	delete(r.at, at)
	for _, id := range ids {
		c, _ := ledger.ReservedBy(id)
		if delete(r.of[c], id); len(r.of[c]) == 0 {
			delete(r.of, c)
		}
	}
}

// Reservations counts the unconfirmed reservations of each workspace: those in the ledger, as
// the watch has brought them, and the calls in flight. The zero value is empty. It is safe for
// concurrent use.
type Reservations struct {
	mu     sync.Mutex
	stored Reserved
	calls  map[ledger.ClusterName]int
	told   map[ledger.ClaimID]time.Time // the last answer with a reservation of this ID, for a second at least
	kept   int                          // how many of those were left when the old ones were last forgotten
}

// Told notes when a CREATE was answered with a reservation.
func (r *Reservations) Told(id ledger.ClaimID, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.told) >= 2*r.kept+minTold {
		maps.DeleteFunc(r.told, func(_ ledger.ClaimID, last time.Time) bool { return second(last).Before(second(at)) })
		r.kept = len(r.told)
	}
	if r.told == nil {
		r.told = map[ledger.ClaimID]time.Time{}
	}
	if at.After(r.told[id]) {
		r.told[id] = at
	}
}

// Next is the time of a new reservation of this ID: now, or the beginning of the second that follows its
// last answer. A claim shows the time of its answer to the second, and by that, successive claims of one
// name and spec are told apart. Memory has all answers from the space of the reservation since it was
// opened; it may lack one from another space that the watch has not brought yet.
func (r *Reservations) Next(id ledger.ClaimID, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.told[id]; ok && !second(last).Before(second(now)) {
		return second(last).Add(time.Second)
	}
	return now
}

func second(t time.Time) time.Time { return t.Truncate(time.Second) }

// Begin counts a call, or reports false if the workspace has too many reservations. A repeated
// one is always admitted.
func (r *Reservations) Begin(c ledger.ClusterName, id ledger.ClaimID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, again := r.stored.of[c][id]; !again && len(r.stored.of[c])+r.calls[c] >= MaxReservations {
		return false
	}
	if r.calls == nil {
		r.calls = map[ledger.ClusterName]int{}
	}
	r.calls[c]++
	return true
}

// End ends Begin.
func (r *Reservations) End(c ledger.ClusterName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls[c]--; r.calls[c] == 0 {
		delete(r.calls, c)
	}
}

// Put notes a block that the ledger has now, without holdings if the block is gone.
func (r *Reservations) Put(at Position, block store.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored.Put(at, block)
}

// Has reports whether the ledger has a reservation.
func (r *Reservations) Has(c ledger.ClusterName, id ledger.ClaimID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, stored := r.stored.of[c][id]
	return stored
}

// Reset replaces the reservations that the ledger has.
func (r *Reservations) Reset(stored *Reserved) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored = *stored
}

// Len is the number of reservations in the ledger.
func (r *Reservations) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for ids := range maps.Values(r.stored.of) {
		n += len(ids)
	}
	return n
}
