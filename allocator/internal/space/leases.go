package space

import (
	"cmp"
	"net/netip"
	"sync"
	"time"

	"github.com/google/btree"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// retell is the time after which Tell names a holder again, if its block is still retained.
const retell = time.Minute

// LeaseOf returns the lease of a block; ok is false if it has none.
func LeaseOf(r store.Record) (lease ledger.Lease, ok bool) {
	h := r.Held
	if h == nil || h.State != ledger.Retained || h.Until.IsZero() {
		return ledger.Lease{}, false
	}
	return ledger.Lease{Holder: r.Block().Holder, Until: h.Until}, true
}

// Leases are the leases of the ledger in the order of their ends. A change costs the logarithm of their number. It is
// safe for concurrent use.
type Leases struct {
	News chan struct{} // gets a value when a new lease ends before all others

	mu    sync.Mutex
	held  map[ledger.SpaceID]map[netip.Prefix]*term
	queue *btree.BTreeG[*term]
}

// term is a lease in the queue.
type term struct {
	ledger.Lease
	tell time.Time // when Tell names its holder next
	at   ledger.Position
}

func (t *term) less(than *term) bool {
	return cmp.Or(
		t.tell.Compare(than.tell),
		ledger.ComparePrefixes(t.at.Prefix, than.at.Prefix),
		cmp.Compare(t.at.Space, than.at.Space),
	) < 0
}

func newLeases() Leases {
	return Leases{
		News:  make(chan struct{}, 1),
		held:  map[ledger.SpaceID]map[netip.Prefix]*term{},
		queue: btree.NewG(32, (*term).less),
	}
}

// Put notes that a block has a lease.
func (l *Leases) Put(at ledger.Position, lease ledger.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, held := l.held[at.Space][at.Prefix]
	if held && old.Lease == lease {
		return
	}
	l.forget(at)
	l.add(at, lease)
}

// Remove notes that a block has no lease.
func (l *Leases) Remove(at ledger.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(at)
}

// forget removes the lease of a block, if it has one. The caller holds mu.
func (l *Leases) forget(at ledger.Position) {
	old, held := l.held[at.Space][at.Prefix]
	if !held {
		return
	}
	l.queue.Delete(old)
	if delete(l.held[at.Space], at.Prefix); len(l.held[at.Space]) == 0 {
		delete(l.held, at.Space)
	}
}

// add adds the lease of a block. The caller holds mu.
func (l *Leases) add(at ledger.Position, lease ledger.Lease) {
	t := &term{Lease: lease, tell: lease.Until, at: at}
	if l.held[at.Space] == nil {
		l.held[at.Space] = map[netip.Prefix]*term{}
	}
	l.held[at.Space][at.Prefix] = t
	l.queue.ReplaceOrInsert(t)
	if first, _ := l.queue.Min(); first.at != at {
		return
	}
	select {
	case l.News <- struct{}{}:
	default: // a notification is pending
	}
}

// Tell returns the holders whose leases are over, and when the next holder is due; zero: never. A holder that Tell has
// named is due again after retell.
func (l *Leases) Tell(now time.Time) (due []ledger.Holder, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		t, ok := l.queue.Min()
		if !ok {
			return due, time.Time{}
		}
		if t.tell.After(now) {
			return due, t.tell
		}
		due = append(due, t.Holder)
		l.queue.DeleteMin()
		t.tell = now.Add(retell)
		l.queue.ReplaceOrInsert(t)
	}
}
