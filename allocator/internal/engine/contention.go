package engine

import (
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Writers of one space are several Allocators. Without more, the one that is nearer to
// etcd wins every time: it learns of its own transaction first, and the others plan
// theirs on a head that is no longer. So a writer that has lost asks for a turn, in the
// else branch of the transaction that it loses next. The others see that by their watch
// and wait, until somebody else has written or the time is over that a transaction of
// the loser takes. It costs nothing where there is one writer.

// maxTurn bounds how long a writer waits for another.
const maxTurn = 100 * time.Millisecond

// turn is another writer's wish to be next.
type turn struct {
	wait  time.Duration
	taken chan struct{} // closed when another writer has changed the space
}

// asks reports whether the worker has lost to other writers, and asks for a turn.
func (s *Worker) asks() bool { return s.losses > 0 }

// ask is what the else branch of a transaction writes to ask for a turn.
func (s *Worker) ask() clientv3.Op {
	return store.Put(s.Engine.Keys.Turn(s.ID), store.EncodeTurn(store.Turn{Writer: s.Table.Writer, Took: s.took}))
}

// asked notes that a writer asks for a turn in a space. What cannot be read asks for
// nothing.
func (eng *Engine) asked(e store.Entry) {
	if !e.Put || e.Damage != nil {
		return
	}
	if s, ok := eng.worker(e.Space); ok {
		s.Lock()
		defer s.Unlock()
		s.asked(e.Turn)
	}
}

// asked notes that a writer asks for a turn. The space's lock is held.
func (s *Worker) asked(t store.Turn) {
	if t.Writer == s.Table.Writer || !s.Working || s.turn != nil {
		return
	}
	s.turn = &turn{wait: min(2*t.Took, maxTurn), taken: make(chan struct{})}
}

// taken notes that another writer has changed the space. The space's lock is held.
func (s *Worker) taken() {
	if s.turn != nil {
		close(s.turn.taken)
		s.turn = nil
	}
}

// yieldTurn waits for a writer that asks for a turn.
func (s *Worker) yieldTurn() {
	s.Lock()
	t := s.turn
	s.Unlock()
	if t == nil {
		return
	}
	select {
	case <-t.taken:
	case <-time.After(t.wait):
	case <-s.Engine.Ctx.Done():
	}
	s.Lock()
	defer s.Unlock()
	if s.turn == t {
		s.turn = nil
	}
}
