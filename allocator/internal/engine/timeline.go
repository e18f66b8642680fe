package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// probeEvery is the pause between two looks whether the ledger is still the same one. A
// restored etcd tells nothing by itself: a watch simply waits for revisions to come.
const probeEvery = time.Second

// guard looks whether the ledger is still the one that is in memory, and removes from it
// what nobody uses, until the Allocator is closed.
func (eng *Engine) guard() {
	probe, prune := time.NewTicker(eng.Hooks.Probe), time.NewTicker(pruneEvery)
	defer probe.Stop()
	defer prune.Stop()
	for {
		select {
		case <-probe.C:
			eng.probe(eng.Ctx)
		case <-prune.C:
			eng.Prune(eng.Ctx)
		case <-eng.Health.Failed:
			return
		case <-eng.Ctx.Done():
			return
		}
	}
}

// probe compares the ledger with what was seen of it. An etcd that does not answer says
// nothing about that.
func (eng *Engine) probe(ctx context.Context) {
	seen := eng.Watched.Get()
	id, ok, revision, err := eng.store.PresentID(ctx)
	if err != nil && !ledger.Unreadable(err) {
		return
	}
	eng.compareRevision(seen, revision)
	switch {
	case err != nil: // a newer program may have written it
	case !ok:
		eng.replaced("its ID is gone")
	case id != eng.ID:
		eng.replaced(fmt.Sprintf("its ID is %s and was %s", id, eng.ID))
	}
}

// compareRevision notes what a response says that came after a revision was seen. Requests
// are answered as of the present, so a response from before that is from another past.
func (eng *Engine) compareRevision(seen, answered int64) {
	if answered < seen {
		eng.replaced(fmt.Sprintf("etcd is at revision %d, and was at %d", answered, seen))
	}
}

// checkNext looks at the head that the watch has brought. Every one is seen, so that one which
// is not the next shows that the watch goes on in another past.
func (s *Worker) checkNext(next store.Head) {
	if s.Head.Revision > 0 && next.Created == s.Head.Created && next.Version != s.Head.Version+1 {
		s.Engine.replaced(fmt.Sprintf("the head of space %s was put %d times, of which %d were seen", s.ID, next.Version, s.Head.Version+1))
	}
}

// replaced notes that the ledger is not the one that is in memory.
func (eng *Engine) replaced(sign string) {
	if eng.Health.fail(fmt.Errorf("%w (%s)", ledger.ErrReplaced, sign)) {
		eng.logger.Error("the ledger was restored or replaced while this process used it", "sign", sign)
	}
}
