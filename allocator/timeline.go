package allocator

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// ErrReplaced: the ledger was restored from an older copy under this Allocator, or another
// one was put in its place. What memory holds is of a ledger that is no more, so the
// Allocator changes nothing from then on. Open another one.
var ErrReplaced = fmt.Errorf("%w: the ledger was restored or replaced while this process used it; restart the process", ErrUnavailable)

// probeEvery is the pause between two looks whether the ledger is still the same one. A
// restored etcd tells nothing by itself: a watch simply waits for revisions to come.
const probeEvery = time.Second

// Failed is closed when the Allocator cannot go on. Err then says why. End the process,
// or open another Allocator.
func (a *Allocator) Failed() <-chan struct{} { return a.health.failed }

// Err is why the Allocator failed; nil if it did not.
func (a *Allocator) Err() error {
	a.health.mu.Lock()
	defer a.health.mu.Unlock()
	return a.health.fatal
}

// guard looks whether the ledger is still the one that is in memory, and removes from it
// what nobody uses, until the Allocator is closed.
func (a *Allocator) guard() {
	probe, prune := time.NewTicker(a.hooks.probe), time.NewTicker(pruneEvery)
	defer probe.Stop()
	defer prune.Stop()
	for {
		select {
		case <-probe.C:
			a.probe(a.ctx)
		case <-prune.C:
			a.prune(a.ctx)
		case <-a.Failed():
			return
		case <-a.ctx.Done():
			return
		}
	}
}

// probe compares the ledger with what was seen of it. An etcd that does not answer says
// nothing about that.
func (a *Allocator) probe(ctx context.Context) {
	seen := a.watched.get()
	id, ok, revision, err := a.store.PresentID(ctx)
	if err != nil && !Unreadable(err) {
		return
	}
	a.compareRevision(seen, revision)
	switch {
	case err != nil: // a newer program may have written it
	case !ok:
		a.replaced("its ID is gone")
	case id != a.id:
		a.replaced(fmt.Sprintf("its ID is %s and was %s", id, a.id))
	}
}

// compareRevision notes what a response says that came after a revision was seen. Requests
// are answered as of the present, so a response from before that is from another past.
func (a *Allocator) compareRevision(seen, answered int64) {
	if answered < seen {
		a.replaced(fmt.Sprintf("etcd is at revision %d, and was at %d", answered, seen))
	}
}

// checkNext looks at the head that the watch has brought. Every one is seen, so that one which
// is not the next shows that the watch goes on in another past.
func (s *worker) checkNext(next store.Head) {
	if s.Head.Revision > 0 && next.Created == s.Head.Created && next.Version != s.Head.Version+1 {
		s.alloc.replaced(fmt.Sprintf("the head of space %s was put %d times, of which %d were seen", s.ID, next.Version, s.Head.Version+1))
	}
}

// replaced notes that the ledger is not the one that is in memory.
func (a *Allocator) replaced(sign string) {
	if a.health.fail(fmt.Errorf("%w (%s)", ErrReplaced, sign)) {
		a.options.Logger.Error("the ledger was restored or replaced while this process used it", "sign", sign)
	}
}
