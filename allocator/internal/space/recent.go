package space

import "sync"

// recentKept is how many IDs at least are remembered. At most, twice as many are.
const recentKept = 8192

// recent is a set of IDs that forgets the oldest ones. The zero value is empty. It is safe for concurrent use.
type recent[ID comparable] struct {
	mu          sync.RWMutex
	now, former map[ID]struct{}
}

// Has reports whether an ID was added lately, and not removed by Forget.
func (r *recent[ID]) Has(id ID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, now := r.now[id]
	_, former := r.former[id]
	return now || former
}

// Add adds IDs.
func (r *recent[ID]) Add(ids ...ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if r.now == nil || len(r.now) >= recentKept {
			r.now, r.former = map[ID]struct{}{}, r.now
		}
		r.now[id] = struct{}{}
	}
}

// Forget removes IDs.
func (r *recent[ID]) Forget(ids ...ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		delete(r.now, id)
		delete(r.former, id)
	}
}
