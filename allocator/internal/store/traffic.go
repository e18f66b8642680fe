package store

import (
	"context"
	"sync"
	"time"
)

const (
	// maxGiveWay bounds the time that a list lets pass before it reads the next page.
	maxGiveWay = 5 * time.Millisecond
	// recent is the time after a transaction during which lists read small pages.
	recent = 250 * time.Millisecond
)

// traffic counts the transactions in flight. Lists wait for them before each page, and read smaller pages. A page keeps
// etcd and a processor busy for milliseconds, and a bind at that moment waits as long. The zero value is ready to use.
// It is safe for concurrent use.
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

// page returns how many keys a list reads at once now. size is its usual number. Beside binds it is an eighth of that,
// which costs the list a tenth more time.
func (t *traffic) page(size int) int {
	if !t.busy() {
		return size
	}
	return max(1, size/8)
}

// giveWay is called before each page. worked is the time since the last call returned. While there are transactions,
// giveWay rests three times as long as worked, and then waits until no transaction is in flight, for at most maxGiveWay
// in all. A list that never rests keeps the garbage collector running. On two processors, a bind then takes ten
// milliseconds.
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

// wait waits until the channel is closed, the time is over, or ctx ends.
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
