package simkcp

import (
	"crypto/sha256"
	"sync"
)

// memory keeps values that were computed from bytes, for all worlds of the process. It is safe for concurrent use.
type memory[V any] struct {
	most  int
	mu    sync.Mutex
	known map[[sha256.Size]byte]V
}

// newMemory returns a memory that keeps at most that many values.
func newMemory[V any](most int) *memory[V] {
	return &memory[V]{most: most, known: map[[sha256.Size]byte]V{}}
}

// get returns the value that compute has for these bytes, from memory if it was computed before. Nobody may change
// it.
func (m *memory[V]) get(of []byte, compute func() V) V {
	key := sha256.Sum256(of)
	m.mu.Lock()
	value, ok := m.known[key]
	m.mu.Unlock()
	if ok {
		return value
	}
	value = compute()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= m.most {
		clear(m.known)
	}
	m.known[key] = value
	return value
}
