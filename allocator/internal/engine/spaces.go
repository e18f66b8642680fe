package engine

import (
	"sync"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Space is a space of the ledger in memory, as the engine has it. Its lock guards all fields.
type Space struct {
	*space.Space
	Engine *Engine
	Keys   store.SpaceKeys // those of the space
	alarm  alarm           // for the next cooldown that ends
}

// View returns a view for a plan that is made now. next is as in [space.Space.View]; nil: the plan puts no head. The
// caller holds the space's lock.
func (s *Space) View(next func(least int64) int64) space.View {
	return s.Space.View(s.Keys, int(s.Engine.Limit.Load()), next)
}

// Frozen reports whether the space allocates nothing, because it may have lost changes.
func (s *Space) Frozen() bool { return s.Room.Pools.Frozen() >= space.Untrusted }

// Discard ends the draft of a transaction whose outcome is certain. If the ledger has nothing in the space, the space
// goes.
func (s *Space) Discard() {
	s.Space.Discard()
	if s.Unregistered() {
		s.Gone = true
		s.Engine.Spaces.drop(s)
	}
}

// abandon drops a space if the ledger has nothing in it. It is called after the failure of an operation that might have
// begun the space. Queued calls for the space begin it again. If the transaction is committed nevertheless, it brings
// the space back.
func (s *Space) abandon() {
	s.Lock()
	defer s.Unlock()
	if !s.Gone && s.Unregistered() {
		s.Gone = true
		s.Engine.Spaces.drop(s)
	}
}

// expect gives a record in memory to an address space that is not in the ledger, so that a plan can be made in it. The
// record is made from the present record of the pool. Only the writer calls expect, and only the writer changes pools.
func (s *Space) expect(of *ledger.Derived) {
	if of == nil || len(s.Room.Pools) > 0 {
		return
	}
	if p, ok := s.Table.Find(of.Of); ok {
		s.Expect(of.In(p.Pool))
	}
}

// Unfit returns why nothing can be planned in the space; nil: it can.
func (s *Space) Unfit() error {
	if s.Engine.Ctx.Err() != nil {
		return ledger.ErrClosed
	}
	if err := s.Engine.Health.Err(); err != nil {
		return err
	}
	switch {
	case s.Gone:
		return ErrGone
	case len(s.Damage) > 0:
		return s.Damage.Err()
	}
	return nil
}

// spaces has all spaces. It is safe for concurrent use. Its lock is taken after the lock of a space, never before. The
// holder of the lock must not wait for anything.
type spaces struct {
	mu   sync.RWMutex
	is   map[ledger.SpaceID]*Space
	open func(ledger.SpaceID) *Space // makes a space
}

// find returns a space; ok is false if the space is not known.
func (all *spaces) find(id ledger.SpaceID) (w *Space, ok bool) {
	all.mu.RLock()
	defer all.mu.RUnlock()
	w, ok = all.is[id]
	return w, ok
}

// All returns all spaces.
func (all *spaces) All() []*Space {
	all.mu.RLock()
	defer all.mu.RUnlock()
	spaces := make([]*Space, 0, len(all.is))
	for _, w := range all.is {
		spaces = append(spaces, w)
	}
	return spaces
}

// Enter finds or makes a space, and returns it locked. It replaces a space that is gone by
// a new one.
func (all *spaces) Enter(id ledger.SpaceID) *Space {
	var gone *Space
	for {
		all.mu.Lock()
		w, ok := all.is[id]
		if !ok || w == gone {
			w = all.open(id)
			all.is[id] = w
		}
		all.mu.Unlock()
		w.Lock()
		if !w.Gone {
			return w
		}
		gone = w
		w.Unlock()
	}
}

// drop removes a space, unless another one has taken its place.
func (all *spaces) drop(w *Space) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.is[w.ID] == w {
		delete(all.is, w.ID)
	}
}

// Count adds up the numbers that a function returns for the spaces. The lock of a space is held during the call for
// that space.
func (all *spaces) Count(of func(*Space) int) (n int) {
	for _, w := range all.All() {
		w.Read(func() { n += of(w) })
	}
	return n
}

// CountCooling counts the cooling blocks of all spaces.
func (all *spaces) CountCooling() int {
	return all.Count(func(w *Space) int { return len(w.Cooling.Blocks) })
}
