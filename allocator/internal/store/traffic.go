package store

import (
	"context"
	"sync"
	"time"
)

const (
	// maxGiveWay bounds how long a list rests and waits before it reads the next page.
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

// busy reports whether there was a transaction a moment ago.
func (t *traffic) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count > 0 || time.Since(t.last) <= recent
}

// page is how many keys a list with pages of that size reads at once now. Beside binds it is an
// eighth, which costs the list a tenth more time.
func (t *traffic) page(size int) int {
	if !t.busy() {
		return size
	}
	return max(1, size/8)
}

// giveWay is called before each page, with the time since the last call returned. Beside transactions it rests
// three times as long, then waits until none is in flight, all of that no longer than maxGiveWay. A list that never
// rests has the garbage collector run all the time, beside which a bind on two processors takes ten milliseconds.
func (t *traffic) giveWay(ctx context.Context, worked time.Duration) {
	if !t.busy() {
		return
	}
	rest := min(3*worked, maxGiveWay)
	wait(ctx, nil, rest)
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
	wait(ctx, quiet, maxGiveWay-rest)
}

// wait waits for the channel, or until the time or ctx ends.
func wait(ctx context.Context, done <-chan struct{}, most time.Duration) {
	if most <= 0 {
		return
	}
	select {
	case <-done:
	case <-time.After(most):
	case <-ctx.Done():
	}
}
