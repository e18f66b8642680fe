package allocator

import (
	"fmt"
	"sync"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// A group of calls on many pools puts the head of each. It stays within the operations of a transaction all the same, so that none is
// refused as too large, after which all groups were smaller.
func TestBind_ManyPoolsInOneTransaction(t *testing.T) {
	const many = 1100
	l := newLedger(t)
	for n := range many {
		l.pool(ledger.PoolID(fmt.Sprint("p", n)), fmt.Sprintf("10.%d.%d.0/24", n/256, n%256))
	}
	before := l.engine.Limit.Load()
	sent := make(chan struct{})
	first := sync.OnceFunc(func() { <-sent })
	l.swap(func(h *engine.Hooks) { h.BeforeCommit = func(ledger.SpaceID) error { first(); return nil } })
	var calls sync.WaitGroup
	for n := range many {
		calls.Go(func() { l.bind(request(ledger.PoolID(fmt.Sprint("p", n)), fmt.Sprint("c", n), 32)) })
	}
	l.waitQueued(many - 1)
	close(sent)
	calls.Wait()
	if now := l.engine.Limit.Load(); now != before {
		t.Errorf("a transaction was too large: groups have %d operations now, and had %d", now, before)
	}
	l.holds(many)
}
