package store

import (
	"context"
	"sync"
	"time"
)

// maxGiveWay bounds how long a list waits for transactions before it reads the next page.
const maxGiveWay = 5 * time.Millisecond

// traffic counts the transactions in flight, so that lists can wait for them between two
// pages. A page keeps etcd and a processor busy for milliseconds, and a bind that meets it
// waits as long. The zero value is ready to use; safe for concurrent use.
type traffic struct {
	mu    sync.Mutex
	count int
	quiet chan struct{} // closed when no transaction is in flight; nil if nobody waits
}

// Begin counts a transaction until end is called.
func (t *traffic) Begin() (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	return t.end
}

func (t *traffic) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count--; t.count == 0 && t.quiet != nil {
		close(t.quiet)
		t.quiet = nil
	}
}

// giveWay waits until no transaction is in flight, and no longer than maxGiveWay.
func (t *traffic) giveWay(ctx context.Context) {
	t.mu.Lock()
	if t.count == 0 {
		t.mu.Unlock()
		return
	}
	if t.quiet == nil {
		t.quiet = make(chan struct{})
	}
	quiet := t.quiet
	t.mu.Unlock()
	select {
	case <-quiet:
	case <-time.After(maxGiveWay):
	case <-ctx.Done():
	}
}
