package simkcp

import (
	"crypto/sha256"
	"sync"
)

// remembered is how many values a memory keeps.
const remembered = 20_000

// memory keeps values that were computed from bytes, for all worlds of the process. It is safe for concurrent use.
type memory[V any] struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]V
}

func newMemory[V any]() *memory[V] { return &memory[V]{known: map[[sha256.Size]byte]V{}} }

// get returns the value that compute returns for bytes, now or before. Nobody changes it.
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
	if len(m.known) >= remembered {
		clear(m.known)
	}
	m.known[key] = value
	return value
}
