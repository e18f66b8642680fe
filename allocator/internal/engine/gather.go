package engine

import (
	"errors"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// errFull: the call needs the next group.
var errFull = errors.New("the group is full")

// gather plans the queued calls, in turn, until the transaction is full, or one of them would change what another
// changes. nil: there are no calls, and the worker ends.
func (s *Worker) gather() *group {
	s.Lock()
	defer s.Unlock()
	g, only := s.begin(), s.refuted
	s.refuted = false
	for c := s.Queue.peek(); c != nil; c = s.Queue.peek() {
		if only && len(g.calls) > 0 && len(s.Queue.again) == 0 {
			break
		}
		err := s.join(c, g)
		if errors.Is(err, errFull) {
			break
		}
		s.Queue.pop()
		if err != nil {
			c.finish(err)
			continue
		}
		if !c.gone {
			g.calls = append(g.calls, c)
		}
	}
	if len(g.calls) == 0 {
		s.Discard()
		s.Working = false
		s.DropIfEmpty()
		return nil
	}
	g.seal()
	return g
}

// begin begins a group on the space as it is now.
func (s *Worker) begin() *group {
	g := &group{keys: s.Keys, at: s.Head, known: max(s.Known, s.Engine.Watched.Get())}
	g.draft = s.Begin(min(s.Queue.Size, int(s.Engine.Limit.Load())))
	g.by = fmt.Sprintf("%s.%d", s.Engine.writer, s.Engine.groups.Add(1))
	g.count = g.at.Count + 1
	if s.Room.Pools.Frozen() >= space.Untrusted {
		g.count = g.at.Count // a frozen space does not count changes
	}
	return g
}

// join plans a call for a group. errFull: the call does not fit there. Any other error is its answer.
func (s *Worker) join(c *call, g *group) error {
	if c.gone {
		return nil
	}
	limit, others := int(s.Engine.Limit.Load()), len(g.calls) > 0
	if others && (c.Alone || g.calls[0].Alone || g.size.ops()+callOps > limit) {
		return errFull
	}
	span := c.traced.Placing()
	p, err := s.plan(c, g)
	EndSpan(span, err)
	if err != nil {
		return err
	}
	sum := g.size.plus(sizeOf(p.Changes))
	if others && (sum.ops() > limit || sum.bytes > MaxGroupBytes) || !s.Try(p.Changes) {
		return errFull
	}
	c.plan, g.size = p, sum
	return nil
}

// plan plans a call, unless the space can plan nothing.
func (s *Worker) plan(c *call, g *group) (Plan, error) {
	if err := s.Unfit(); err != nil {
		return Plan{}, err
	}
	return c.Plan(s.View(g.nextHead))
}

// View returns the view of a plan that is made now. next is as in [space.Space.View]; nil: the plan puts no head. The space's
// lock is held.
func (s *Worker) View(next func(least int64) store.Head) space.View {
	return s.Space.View(s.Keys, int(s.Engine.Limit.Load()), next)
}

// Unfit returns why the space can plan nothing; nil: it can.
func (s *Worker) Unfit() error {
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
	case s.Stale:
		return errStale
	}
	return nil
}

// errStale: memory differs from the ledger.
var errStale = fmt.Errorf("%w: the space is being read again", ledger.ErrUnavailable)

// distrust notes that a transaction has found memory wrong. It has written nothing. The space plans nothing until it is
// read again.
func (s *Worker) distrust(key string) error {
	s.Engine.logger.Error("memory differs from the ledger, which is read again", "space", s.ID, "key", key)
	s.Lock()
	s.Stale = true
	s.Unlock()
	s.Engine.reread()
	return errStale
}
