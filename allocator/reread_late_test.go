package allocator

import (
	"context"
	"sync"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// retiredUnseen registers a pool with an Allocator whose watch is cut off. The transaction is committed, and before the Allocator
// has its answer, or err in its place, another one retires the pool, and the ledger is read again.
func (l *fixture) retiredUnseen(err error) (behind *fixture, answer error) {
	l.t.Helper()
	l.pool("q", "10.1.0.0/24")
	behind, watch := l.behind()
	var once sync.Once
	behind.swap(func(h *engine.Hooks) {
		h.AfterCommit = func(ledger.SpaceID) (lost error) {
			once.Do(func() {
				l.missed(behind, watch, func() {
					must.Do(l.t, l.Pools().Retire(l.t.Context(), "p"))
					l.bind(request("q", "c", 28))
				})
				lost = err
			})
			return lost
		}
	})
	watch.set(true)
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*behind.store.Timeout)
	defer cancel()
	_, answer = behind.Pools().Register(ctx, root("p", "10.0.0.0/24"))
	return behind, answer
}

// A pool was registered, and retired elsewhere, before this Allocator has the answer of its transaction. The ledger was read again
// meanwhile: memory does not bring the pool back.
func TestReread_APoolThatWasRetiredBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	behind, err := l.retiredUnseen(nil)
	must.Do(t, err)
	if p, ok := behind.Pools().Get("p"); ok {
		t.Errorf("memory has pool %+v, want none: it was retired", p)
	}
	must.Get(behind.Pools().Register(t.Context(), root("over", "10.0.0.0/16")))(t)
	l.sameAsLedger(behind.Allocator)
}

// The answer was lost, too. Nobody can tell any more whether the pool was registered, and it is not registered a second time.
func TestReread_APoolThatWasRetiredAndItsAnswerLost(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	behind, err := l.retiredUnseen(errLost)
	must.Be(t, err, ledger.ErrUnavailable)
	if _, _, ok, err := l.Pools().Read(t.Context(), "p"); ok || err != nil {
		t.Errorf("the retired pool is in the ledger: %t, %v", ok, err)
	}
	l.sameAsLedger(behind.Allocator)
}
