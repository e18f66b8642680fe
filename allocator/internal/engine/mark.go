package engine

import (
	"context"
	"sync"
)

// mark is a revision that only grows. Goroutines can wait for it. It is safe for concurrent use.
type mark struct {
	mu       sync.Mutex
	revision int64
	grown    chan struct{} // closed, and replaced, when revision grows
}

func newMark() *mark { return &mark{grown: make(chan struct{})} }

// Get is the revision.
func (m *mark) Get() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision
}

func (m *mark) advance(revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if revision <= m.revision {
		return
	}
	m.revision = revision
	close(m.grown)
	m.grown = make(chan struct{})
}

// Wait returns when the mark has reached the revision.
func (m *mark) Wait(ctx context.Context, revision int64) error {
	for {
		m.mu.Lock()
		reached, grown := m.revision >= revision, m.grown
		m.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
