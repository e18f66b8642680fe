package engine

import (
	"context"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// lifetime is the time of an engine from New until Close, which waits for the engine's goroutines. It is safe for
// concurrent use.
type lifetime struct {
	Ctx    context.Context // ends when Close begins, with ErrClosed as its cause
	cancel context.CancelCauseFunc

	mu         sync.Mutex
	closed     bool
	goroutines sync.WaitGroup
}

// Spawn runs f in a goroutine that Close waits for. It reports false, and does
// nothing, once Close has begun.
func (l *lifetime) Spawn(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.goroutines.Go(f)
	return true
}

// end ends the context, and waits for all goroutines.
func (l *lifetime) end() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel(ledger.ErrClosed)
	l.goroutines.Wait()
}

// whileOpen returns a function that calls f, unless the end has begun before.
func (l *lifetime) whileOpen(f func()) func() {
	return func() {
		if l.Ctx.Err() == nil {
			f()
		}
	}
}

// rest waits for the duration d, or until Close begins.
func (l *lifetime) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-l.Ctx.Done():
	}
}
