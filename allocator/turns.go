package allocator

import (
	"context"
	"sync"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// turns lets one caller at a time follow a change to a pool. The zero value is ready; safe for concurrent use.
type turns struct {
	mu sync.Mutex
	of map[ledger.PoolID]*turn
}

// turn is that of a pool, as long as somebody has it or waits for it.
type turn struct {
	taken   chan struct{}
	callers int
}

// take waits for the turn of a pool, and returns what ends it.
func (t *turns) take(ctx context.Context, id ledger.PoolID) (end func(), err error) {
	t.mu.Lock()
	one := t.of[id]
	if one == nil {
		one = &turn{taken: make(chan struct{}, 1)}
		if t.of == nil {
			t.of = map[ledger.PoolID]*turn{}
		}
		t.of[id] = one
	}
	one.callers++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.callers--; one.callers == 0 {
			delete(t.of, id)
		}
	}
	select {
	case one.taken <- struct{}{}:
		return func() { <-one.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
