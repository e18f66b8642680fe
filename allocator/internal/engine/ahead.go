package engine

import (
	"errors"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
)

// Between two transactions etcd would wait until the worker has brought the first into memory,
// answered its calls and planned the second. So a call that comes while a transaction is in flight
// is planned at once, by its caller's goroutine, for the next one. That needs a transaction in flight
// that takes free room and does nothing else, and a call that depends on nothing but room: memory has
// what is in flight, as reserved.
//
// The next transaction compares the head that the one in flight puts. If that one is not committed as
// a whole, or another writer has changed the space since, it is not sent: its calls are queued again.

// independent reports whether the call's op depends on nothing but room and, as far as it is planned,
// takes free room and does nothing else. It may share its transaction.
func (c *call) independent() bool {
	o, ok := c.op.(independent)
	if !ok || !o.Independent() {
		return false
	}
	_, shares := c.op.Claim()
	return shares
}

// launch has calls planned behind a group that is about to be sent, unless they would be planned in
// vain: another writer, or a call that is refuted, is likely to come first.
func (s *Worker) launch(g *group) {
	if !g.mixed && s.losses == 0 && s.nest == 0 {
		s.inFlight = g
	}
}

// planAhead plans a call behind the group in flight. It reports false if the call has to be queued.
func (s *Worker) planAhead(c *call) bool {
	if s.inFlight == nil || s.Queue.Size > 0 || !c.independent() {
		return false
	}
	g := s.ahead
	if g == nil {
		g = newGroup(len(s.inFlight.calls))
	}
	if !g.admits(c, int(s.Engine.Limit.Load())) {
		return false
	}
	sh, err := s.place(c, g)
	if err != nil {
		c.finish(err)
		return true
	}
	g.add(c, sh)
	s.ahead = g
	return true
}

// land notes that a transaction was committed, with all its calls or without some.
func (s *Worker) land(revision int64) {
	s.inFlight = nil
	if s.ahead == nil {
		return
	}
	if s.pending != nil || s.Head.Revision != revision {
		s.recall()
		return
	}
	s.ahead.at = s.Head
}

// takeAhead returns the group that was planned behind the last one; nil: there is none, or it was given up.
func (s *Worker) takeAhead() *group {
	g := s.ahead
	if g == nil {
		return nil
	}
	changed := s.Head.Revision != g.at.Revision || s.Room.Pools.Frozen() != space.NotFrozen || s.Unfit() != nil
	if changed || slices.ContainsFunc(g.calls, func(c *call) bool { return c.gone }) {
		s.recall()
		return nil
	}
	s.ahead = nil
	return g
}

// recall gives up the group that was planned behind another one, and queues its calls.
func (s *Worker) recall() {
	s.inFlight = nil
	if s.ahead == nil {
		return
	}
	again := slices.DeleteFunc(s.ahead.calls, func(c *call) bool { return !s.unplan(c) })
	s.ahead = nil
	s.Queue.unpop(again)
}

// unplan undoes what the plan of a call that is not sent has done in memory. It reports whether the
// call still waits to be planned.
func (s *Worker) unplan(c *call) (again bool) {
	if err := c.op.Lost(s, Loss{Kind: Unsent}); !errors.Is(err, ErrAgain) {
		c.finish(err)
	}
	c.traced.Requeued()
	return !c.gone
}
