package space

import (
	"container/heap"
	"net/netip"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// retell is when a holder is named again whose lease is over and whose block is still there.
const retell = time.Minute

// LeaseOf is the lease of a block, if it is retained for a time, and not in dispute.
func LeaseOf(r store.Record) (lease ledger.Lease, ok bool) {
	if len(r.Holdings) == 0 || r.Disputed {
		return ledger.Lease{}, false
	}
	h := r.Holdings[0]
	if h.State != ledger.Retained || h.Until.IsZero() {
		return ledger.Lease{}, false
	}
	return ledger.Lease{Holder: r.Block(h).Holder, Until: h.Until}, true
}

// Position is where a block lies.
type Position struct {
	Space  ledger.SpaceID
	Prefix netip.Prefix
}

// Leases are those in the ledger, as the watch has seen it, in the order of their ends. What one
// costs does not depend on how many there are, but for a logarithm. It is safe for concurrent use.
type Leases struct {
	News chan struct{}

	mu    sync.Mutex
	held  map[Position]*term
	queue terms
}

// term is a lease in the queue.
type term struct {
	ledger.Lease
	tell time.Time // when it is to be named
	at   int       // where it is in the queue
}

func newLeases() Leases {
	return Leases{News: make(chan struct{}, 1), held: map[Position]*term{}}
}

// Put notes that a block has a lease.
func (l *Leases) Put(at Position, lease ledger.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, held := l.held[at]
	if held && old.Lease == lease {
		return
	}
	l.forget(at)
	l.add(at, lease)
}

// Remove notes that a block has none.
func (l *Leases) Remove(at Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(at)
}

// forget is called with mu held.
func (l *Leases) forget(at Position) {
	if old, held := l.held[at]; held {
		heap.Remove(&l.queue, old.at)
		delete(l.held, at)
	}
}

// add is called with mu held.
func (l *Leases) add(at Position, lease ledger.Lease) {
	t := &term{Lease: lease, tell: lease.Until}
	l.held[at] = t
	heap.Push(&l.queue, t)
	if t.at > 0 {
		return
	}
	select {
	case l.News <- struct{}{}:
	default: // it is known that there is something new
	}
}

// Reset replaces what is known of the ledger.
func (l *Leases) Reset(now map[Position]ledger.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.queue = make(map[Position]*term, len(now)), nil
	for at, lease := range now {
		l.add(at, lease)
	}
}

// Tell names the holders whose leases are over, and says when the next one will be.
func (l *Leases) Tell(now time.Time) (due []ledger.Holder, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && !l.queue[0].tell.After(now) {
		t := l.queue[0]
		due = append(due, t.Holder)
		t.tell = now.Add(retell)
		heap.Fix(&l.queue, 0)
	}
	if len(l.queue) > 0 {
		next = l.queue[0].tell
	}
	return due, next
}

// terms are a heap: the one that is to be named next is the first.
type terms []*term

func (q terms) Len() int           { return len(q) }
func (q terms) Less(i, j int) bool { return q[i].tell.Before(q[j].tell) }
func (q terms) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

// Push implements heap.Interface.
func (q *terms) Push(x any) {
	t := x.(*term)
	t.at = len(*q)
	*q = append(*q, t)
}

// Pop implements heap.Interface.
func (q *terms) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return t
}
