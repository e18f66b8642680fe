package space

import (
	"maps"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// MaxReservations is how many unconfirmed reservations one workspace may have. A claim that was created is
// confirmed within milliseconds, so more are those of CREATEs that have failed.
const MaxReservations = 64

// Renewable is how long after its first answer a reservation may be given as the answer once more. A CREATE
// that fails each time would otherwise keep its block for as long as it is repeated.
const Renewable = 5 * time.Minute

// MaxLead is how far the time of a reservation may be ahead of the clock, because earlier answers of its ID have had
// the seconds before.
const MaxLead = 2 * time.Second

// minTold is how many answers are remembered before old ones are looked for.
const minTold = 1024

// Reserved are the reservations in the ledger, of each workspace and of each block. One that moves to another block may
// have both for a moment. The zero value is empty.
type Reserved struct {
	of map[ledger.ClusterName]map[ledger.ClaimID]tenures
	at map[ledger.SpaceID]map[netip.Prefix][]ledger.ClaimID
}

// tenures are since when a reservation has each of its blocks, as far as memory goes back.
type tenures map[ledger.Position]time.Time

// Put notes the block at a place. Its reservations are those of its holders.
func (r *Reserved) Put(at ledger.Position, block store.Record) {
	before := map[ledger.ClaimID]time.Time{}
	for _, id := range r.at[at.Space][at.Prefix] {
		c, _ := ledger.ReservedBy(id)
		before[id] = r.of[c][id][at]
	}
	r.remove(at)
	if block.Held == nil {
		return
	}
	if cluster, ok := ledger.ReservedBy(block.Held.Claim); ok {
		since, known := before[block.Held.Claim]
		if !known {
			since = block.Held.BoundAt
		}
		r.add(at, ledger.ClusterName(strings.Clone(string(cluster))), ledger.ClaimID(strings.Clone(string(block.Held.Claim))), since)
	}
}

func (r *Reserved) add(at ledger.Position, c ledger.ClusterName, id ledger.ClaimID, since time.Time) {
	if r.of == nil {
		r.of, r.at = map[ledger.ClusterName]map[ledger.ClaimID]tenures{}, map[ledger.SpaceID]map[netip.Prefix][]ledger.ClaimID{}
	}
	if r.of[c] == nil {
		r.of[c] = map[ledger.ClaimID]tenures{}
	}
	if r.of[c][id] == nil {
		r.of[c][id] = tenures{}
	}
	r.of[c][id][at] = since
	if r.at[at.Space] == nil {
		r.at[at.Space] = map[netip.Prefix][]ledger.ClaimID{}
	}
	r.at[at.Space][at.Prefix] = append(r.at[at.Space][at.Prefix], id)
}

func (r *Reserved) remove(at ledger.Position) {
	ids, ok := r.at[at.Space][at.Prefix]
	if !ok {
		return
	}
	if delete(r.at[at.Space], at.Prefix); len(r.at[at.Space]) == 0 {
		delete(r.at, at.Space)
	}
	for _, id := range ids {
		c, _ := ledger.ReservedBy(id)
		if delete(r.of[c][id], at); len(r.of[c][id]) == 0 {
			delete(r.of[c], id)
		}
		if len(r.of[c]) == 0 {
			delete(r.of, c)
		}
	}
}

// since returns when the first CREATE was answered with a reservation that the ledger has.
func (r *Reserved) since(c ledger.ClusterName, id ledger.ClaimID) (first time.Time, ok bool) {
	for _, since := range r.of[c][id] {
		if !ok || since.Before(first) {
			first, ok = since, true
		}
	}
	return first, ok
}

// Reservations counts the unconfirmed reservations of each workspace: those in the ledger,
// and the calls in flight. The zero value is empty. It is safe for
// concurrent use.
type Reservations struct {
	mu     sync.Mutex
	stored Reserved // of blocks
	ranges Reserved // of whole pools
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
// opened. ErrTooOften: it would be more than
// MaxLead after now.
func (r *Reservations) Next(id ledger.ClaimID, now time.Time) (time.Time, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.told[id]
	if !ok || second(last).Before(second(now)) {
		return now, nil
	}
	next := second(last).Add(time.Second)
	if next.Sub(now) > MaxLead {
		return time.Time{}, ledger.ErrTooOften
	}
	return next, nil
}

func second(t time.Time) time.Time { return t.Truncate(time.Second) }

// Begin counts a call. It returns ErrReservations if the workspace has too many reservations, and ErrLapsing if this
// one was answered for too long. End must follow if it returns nil.
func (r *Reservations) Begin(c ledger.ClusterName, id ledger.ClaimID, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, again := r.since(c, id)
	switch {
	case again && now.Sub(since) >= Renewable:
		return ledger.ErrLapsing
	case !again && len(r.stored.of[c])+len(r.ranges.of[c])+r.calls[c] >= MaxReservations:
		return ledger.ErrReservations
	}
	if r.calls == nil {
		r.calls = map[ledger.ClusterName]int{}
	}
	r.calls[c]++
	return nil
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
func (r *Reservations) Put(at ledger.Position, block store.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored.Put(at, block)
}

// PutRange notes the holder that a pool has as a whole now, and when it came; empty: none.
func (r *Reservations) PutRange(pool ledger.PoolID, by ledger.ClaimID, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ranges.Put(ledger.Position{Space: ledger.SpaceID(pool)}, store.Record{Held: &store.Holding{Claim: by, BoundAt: since}})
}

// Since is when the first CREATE was answered with a reservation. ok is false if the ledger does not have it.
func (r *Reservations) Since(c ledger.ClusterName, id ledger.ClaimID) (since time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since(c, id)
}

func (r *Reservations) since(c ledger.ClusterName, id ledger.ClaimID) (since time.Time, ok bool) {
	if since, ok = r.stored.since(c, id); !ok {
		since, ok = r.ranges.since(c, id)
	}
	return since, ok
}

// Len is the number of reservations in the ledger.
func (r *Reservations) Len() (n int) {
	for _, of := range r.Count() {
		n += of
	}
	return n
}

// Count counts the reservations of each workspace in the ledger.
func (r *Reservations) Count() map[ledger.ClusterName]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := make(map[ledger.ClusterName]int, len(r.stored.of))
	for _, of := range []map[ledger.ClusterName]map[ledger.ClaimID]tenures{r.stored.of, r.ranges.of} {
		for c, ids := range of {
			counts[c] += len(ids)
		}
	}
	return counts
}
