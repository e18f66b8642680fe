package engine

import (
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Worker is a space and its writer: the queued requests, and the transaction in flight. The lock
// of the space guards all fields but those of the goroutine.
type Worker struct {
	*space.Space
	Engine *Engine
	Keys   store.SpaceKeys // those of the space

	Queue   queue
	Working bool  // the goroutine runs
	alarm   alarm // for the next cooldown that ends

	// The goroutine's own.
	pending *pending // the last group, if its outcome is not certain or not in memory
	refuted bool     // a call of the last group was: the others go without those behind them
}

func (eng *Engine) newWorker(id ledger.SpaceID) *Worker {
	w := &Worker{Space: space.NewSpace(eng.Table, id), Engine: eng, Keys: eng.Keys.Space(id)}
	w.Unlocking, w.Unlocked = w.updateAlarm, eng.tell
	return w
}

// DropIfEmpty drops the space if nothing was ever registered in it.
func (s *Worker) DropIfEmpty() {
	if s.Head.Revision == 0 && len(s.Room.Pools) == 0 {
		s.Gone = true
		s.Engine.Spaces.drop(s)
	}
}
