package allocator

import (
	"sync"
	"time"
)

// clock is a time that moves when told to.
type clock struct {
	mu     sync.Mutex
	time   time.Time
	timers map[int]timer
	last   int
}

type timer struct {
	at time.Time
	f  func()
}

func newClock() *clock {
	return &clock{time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), timers: map[int]timer{}}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.time
}

func (c *clock) after(d time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	id := c.last
	c.timers[id] = timer{at: c.time.Add(d), f: f}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, running := c.timers[id]
		delete(c.timers, id)
		return running
	}
}

// advance lets time pass, and runs what is due.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	c.time = c.time.Add(d)
	var due []func()
	for id, t := range c.timers {
		if !t.at.After(c.time) {
			due = append(due, t.f)
			delete(c.timers, id)
		}
	}
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
}
