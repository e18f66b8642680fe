package store

import (
	"context"
	"sync"
	"time"
)

const (
	// maxGiveWay bounds how long a list waits for transactions before it reads the next page.
	maxGiveWay = 5 * time.Millisecond
	// recent is how long after a transaction lists read small pages.
	recent = 250 * time.Millisecond
)

// traffic counts the transactions in flight, so that lists can wait for them before each page, and
// read smaller pages. A page keeps etcd and a processor busy for milliseconds, and a bind at that
// moment waits as long. The zero value is ready to use. It is safe for concurrent use.
type traffic struct {
	mu    sync.Mutex
	count int
	last  time.Time     // when a transaction began or ended
	quiet chan struct{} // closed when no transaction is in flight; nil if no list waits
}

// Begin counts a transaction until end is called.
func (t *traffic) Begin() (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	t.last = time.Now()
	return t.end
}

func (t *traffic) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = time.Now()
	if t.count--; t.count == 0 && t.quiet != nil {
		close(t.quiet)
		t.quiet = nil
	}
}

// page is how many keys a list with pages of that size reads at once now. Beside binds it is an
// eighth, which costs the list a tenth more time.
func (t *traffic) page(size int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.last) > recent {
		return size
	}
	return max(1, size/8)
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
