package engine

import (
	"context"
	"errors"
	"fmt"

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

// DropIfEmpty drops the space if nothing was ever registered in it.
func (s *Worker) DropIfEmpty() {
	if s.Head.Revision == 0 && len(s.Room.Pools) == 0 {
		s.Gone = true
		s.Engine.Spaces.drop(s)
	}
}

// Submit gives an op to the worker of the pool's space, and waits for the answer.
// If ctx ends first, an op that is still queued is dropped, and one that is in a
// transaction is completed without its caller.
func (eng *Engine) Submit(ctx context.Context, id ledger.PoolID, o Op) (Answer, error) {
	for {
		s, err := eng.Locate(ctx, id)
		if err != nil {
			return Answer{}, err
		}
		answer, err := s.Do(ctx, o)
		if !errors.Is(err, ErrGone) {
			return answer, err
		}
		if err := eng.Confirm(ctx, id); err != nil {
			return Answer{}, err
		}
	}
}

// Change submits an op on a block, once memory has the block's last change. ErrChanged: the
// pool is gone, and the block with it.
func (eng *Engine) Change(ctx context.Context, b ledger.Block, o Op) (answer Answer, err error) {
	s, err := eng.Locate(ctx, b.Pool)
	if err == nil {
		var known int64
		if s.Read(func() { known = s.Known }); known < b.Revision {
			err = eng.Watched.Await(ctx, b.Revision)
		}
	}
	if err == nil {
		answer, err = eng.Submit(ctx, b.Pool, o)
	}
	if errors.Is(err, ledger.ErrUnknownPool) {
		err = fmt.Errorf("%w: %w", ledger.ErrChanged, err)
	}
	return answer, err
}

// Do gives an op to the space's worker, and waits for the answer, as Submit does.
func (s *Worker) Do(ctx context.Context, o Op) (Answer, error) {
	c := &call{Op: o, done: make(chan struct{}), traced: NewTraced(ctx)}
	if err := s.enqueue(c); err != nil {
		return Answer{}, err
	}
	select {
	case <-c.done:
		return c.result()
	case <-ctx.Done():
	}
	s.Lock()
	defer s.Unlock()
	c.finish(fmt.Errorf("waiting for the ledger: %w", context.Cause(ctx)))
	return c.result()
}

// enqueue puts a call into the queue, and starts a worker if there is none.
func (s *Worker) enqueue(c *call) error {
	s.Lock()
	defer s.Unlock()
	if s.Queue.Size >= s.Engine.queueLimit {
		return ledger.ErrBusy
	}
	if !s.Working && !s.Engine.Spawn(s.work) {
		return ledger.ErrClosed
	}
	s.Working = true
	s.Queue.push(c)
	return nil
}

// work commits group after group until the queue is empty and the outcome of each
// transaction is known. A space has one worker at a time.
func (s *Worker) work() {
	for {
		if err := s.settle(); err != nil {
			if !s.refuse(err) {
				return
			}
			s.Engine.rest(retrySettle)
			continue
		}
		g := s.gather()
		if g == nil {
			return
		}
		s.commit(g)
	}
}

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
	s.Engine.Watched.reread()
	return errStale
}
