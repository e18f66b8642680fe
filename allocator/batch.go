package allocator

import (
	"math/rand/v2"
	"time"
)

const (
	// maxGroupBytes keeps a group well below etcd's default limit of 1.5 MiB
	// a request.
	maxGroupBytes = 1 << 20
	// shareOps is how many operations the share of a grouped op has at most, the
	// fence of its quota included.
	shareOps = 3
	// maxDelay bounds the pause after repeated conflicts with other writers.
	maxDelay = 32 * time.Millisecond
	// retrySettle is the pause before a transaction that could not be settled is
	// looked at again.
	retrySettle = 250 * time.Millisecond
)

// group is the calls of one transaction.
type group struct {
	calls  []*call
	shares []share
	claims map[ClaimID]struct{}
	at     head // it was placed on the indexes of this head
	// stamps are the fences of quotas that the group puts: true if it compares them, too.
	stamps  map[account]bool
	pledges pledges
	ops     int
	bytes   int
	drops   bool // the space ends with it
	writes  bool
}

// count is that of the space's changes once the group is committed.
func (g *group) count() int64 {
	count := g.at.count + 1
	for _, sh := range g.shares {
		count = max(count, sh.count)
	}
	return count
}

// admits reports whether a call may join.
func (g *group) admits(c *call, maxOps int) bool {
	if len(g.calls) == 0 {
		return true
	}
	claim, ok := c.op.claim()
	if _, twice := g.claims[claim]; !ok || twice || g.claims == nil {
		return false
	}
	return g.ops+shareOps < maxOps && g.bytes < maxGroupBytes
}

func (g *group) add(c *call, sh share) {
	if claim, ok := c.op.claim(); ok {
		if len(g.calls) == 0 {
			g.claims = map[ClaimID]struct{}{}
		}
		g.claims[claim] = struct{}{}
	}
	g.calls = append(g.calls, c)
	g.shares = append(g.shares, sh)
	g.ops += max(len(sh.ifs), len(sh.then), len(sh.els))
	g.drops = g.drops || sh.drops
	g.stamp(sh.stamp)
	g.writes = g.writes || sh.writes()
	if sh.writes() {
		g.pledges.add(c)
	}
	for _, op := range sh.then {
		g.bytes += len(op.KeyBytes()) + len(op.ValueBytes())
	}
}

// work commits group after group until nothing waits and the outcome of all that
// was sent is known. One worker at a time runs for a space.
func (s *space) work() {
	for conflicts := 0; ; {
		if err := s.settle(); err != nil {
			if !s.refuse(err) {
				return
			}
			s.alloc.rest(retrySettle)
			continue
		}
		g := s.gather()
		if g == nil {
			return
		}
		if !s.commit(g) {
			conflicts = 0
			continue
		}
		conflicts++
		s.alloc.pause(conflicts)
	}
}

// gather places what waits, in turn, until the transaction is full. nil: nothing
// waits, and the worker's work is over.
func (s *space) gather() *group {
	s.lock()
	defer s.unlock()
	maxOps := int(s.alloc.limit.Load())
	g := &group{at: s.head}
	s.placing = g
	defer func() { s.placing = nil }()
	for c := s.queue.peek(); c != nil && g.admits(c, maxOps); c = s.queue.peek() {
		s.dequeue()
		if c.gone {
			continue
		}
		placing := c.traced.placing()
		sh, err := s.place(c.op)
		endSpan(placing, err)
		if err != nil {
			c.finish(err)
			continue
		}
		g.add(c, sh)
	}
	if len(g.calls) == 0 {
		s.working = false
		s.forsake()
		return nil
	}
	return g
}

func (s *space) dequeue() {
	s.queue.pop()
	s.alloc.metrics.queued.Dec()
}

// place places an op, unless there is nothing to place it in.
func (s *space) place(o op) (share, error) {
	switch {
	case s.alloc.ctx.Err() != nil:
		return share{}, ErrClosed
	case s.gone:
		return share{}, errGone
	}
	return o.place(s)
}

// refuse answers all who wait with err. The worker stays with the pending
// transaction, even if nobody asks for more: until it is settled, memory may not
// be what the ledger holds. It reports false when the allocator is closed, which
// ends the worker's work.
func (s *space) refuse(err error) bool {
	s.lock()
	defer s.unlock()
	for _, c := range s.pending.group.calls {
		c.finish(err)
	}
	for c := s.queue.peek(); c != nil; c = s.queue.peek() {
		s.dequeue()
		c.finish(err)
	}
	s.working = s.alloc.ctx.Err() == nil
	return s.working
}

// pause waits a random while after a conflict, longer after each in a row, so
// that writers of one space do not keep failing one another.
func (a *Allocator) pause(conflicts int) {
	a.rest(rand.N(min(time.Millisecond<<min(conflicts, 10), maxDelay)))
}

// rest waits, or until the allocator is closed.
func (a *Allocator) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-a.ctx.Done():
	}
}

// shrink makes do with smaller groups than the one that etcd found too large.
func (a *Allocator) shrink(g *group) {
	limit := max(g.ops/2, shareOps)
	a.limit.Store(int64(limit))
	a.options.Logger.Warn("etcd allows fewer operations in a transaction than configured", "operations", limit)
}
