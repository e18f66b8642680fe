package allocator

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

const (
	// maxGroupBytes keeps a group well below etcd's default limit of 1.5 MiB
	// a request.
	maxGroupBytes = 1 << 20
	// shareOps is how many operations one more call takes: one and its fence, and what
	// it nests.
	shareOps = 5
	// maxDelay bounds the random pause after a first conflict with another writer, so
	// that the two do not meet again at once.
	maxDelay = 2 * time.Millisecond
	// retrySettle is the pause before a transaction that could not be settled is
	// looked at again.
	retrySettle = 250 * time.Millisecond
)

// group is the calls of one transaction.
type group struct {
	calls  []*call
	shares []share
	claims map[ClaimID]struct{}
	blocks map[netip.Prefix]struct{} // that it changes
	at     store.Head                // it was placed on the indexes of this head
	known  int64                     // all changes of the space up to this revision were known then
	stride int64                     // how far it moves the count of changes: not at all while the space is frozen
	// stamps are the fences of quotas that the group puts.
	stamps  map[space.Account]struct{}
	pledges space.Pending
	bytes   int
	drops   bool // the space ends with it
	writes  bool
}

// count is that of the space's changes once the group is committed.
func (g *group) count() int64 {
	count := g.at.Count + g.stride
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
	if m, ok := c.op.(mover); ok && m.from() != "" {
		if _, twice := g.claims[m.from()]; twice {
			return false
		}
	}
	if b, ok := c.op.(changer); ok {
		if _, twice := g.blocks[b.changes()]; twice {
			return false
		}
	}
	return g.ops()+shareOps < maxOps && g.bytes < maxGroupBytes
}

// ops is how many operations the transaction has, without what each share nests: one for
// each call and fence, and the head. etcd counts what is nested on top, for one share at
// a time.
func (g *group) ops() int { return len(g.calls) + len(g.stamps) + 1 }

func (g *group) add(c *call, sh share) {
	if claim, ok := c.op.claim(); ok {
		if len(g.calls) == 0 {
			g.claims = map[ClaimID]struct{}{}
		}
		g.claims[claim] = struct{}{}
	}
	if m, ok := c.op.(mover); ok && m.from() != "" && g.claims != nil {
		g.claims[m.from()] = struct{}{}
	}
	if b, ok := c.op.(changer); ok && b.changes().IsValid() {
		if g.blocks == nil {
			g.blocks = map[netip.Prefix]struct{}{}
		}
		g.blocks[b.changes()] = struct{}{}
	}
	g.calls = append(g.calls, c)
	g.shares = append(g.shares, sh)
	g.drops = g.drops || sh.drops
	g.stamp(sh.stamp)
	g.writes = g.writes || sh.writes()
	if sh.writes() {
		c.pledge(g.pledges)
	}
	for _, op := range sh.then {
		g.bytes += len(op.KeyBytes()) + len(op.ValueBytes())
	}
}

// work commits group after group until nothing waits and the outcome of all that
// was sent is known. One worker at a time runs for a space.
func (s *worker) work() {
	for {
		if err := s.settle(); err != nil {
			if !s.refuse(err) {
				return
			}
			s.engine.rest(retrySettle)
			continue
		}
		s.giveWay()
		g := s.gather()
		if g == nil {
			return
		}
		if !s.commit(g) {
			s.losses /= 2
			continue
		}
		if s.losses++; !s.asks() {
			s.engine.rest(rand.N(maxDelay))
		}
	}
}

// gather places what waits, in turn, until the transaction is full. nil: nothing
// waits, and the worker's work is over.
func (s *worker) gather() *group {
	s.Lock()
	defer s.Unlock()
	maxOps := int(s.engine.limit.Load())
	g := &group{at: s.Head, known: s.Known}
	if !s.Stale { // else events up to there were passed over
		g.known = max(s.Known, s.engine.watched.get())
	}
	if s.Frozen() == space.NotFrozen {
		g.stride = 1
	}
	s.placing = g
	defer func() { s.placing = nil }()
	if m := s.newMarkOp(); m != nil {
		g.add(&call{op: m, done: make(chan struct{})}, m.share(s))
	}
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

func (s *worker) dequeue() {
	s.queue.pop()
	s.engine.metrics.queued.Dec()
}

// place places an op, unless there is nothing to place it in.
func (s *worker) place(o op) (share, error) {
	if s.engine.ctx.Err() != nil {
		return share{}, ErrClosed
	}
	if err := s.engine.err(); err != nil {
		return share{}, err
	}
	if s.Gone {
		return share{}, errGone
	}
	if err := s.Damage.Err(); err != nil {
		return share{}, err
	}
	return o.place(s)
}

// refuse answers all who wait with err. The worker stays with the pending
// transaction, even if nobody asks for more: until it is settled, memory may not
// be what the ledger holds. It reports false when the allocator is closed, which
// ends the worker's work.
func (s *worker) refuse(err error) bool {
	s.Lock()
	defer s.Unlock()
	for _, l := range s.pending.losers {
		l.finish(err)
	}
	for c := s.queue.peek(); c != nil; c = s.queue.peek() {
		s.dequeue()
		c.finish(err)
	}
	s.working = s.engine.ctx.Err() == nil
	return s.working
}

// rest waits, or until the allocator is closed.
func (eng *engine) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-eng.ctx.Done():
	}
}

// shrink makes do with smaller groups than the one that etcd found too large.
func (eng *engine) shrink(g *group) {
	limit := max(g.ops(), len(g.shares[0].then)) / 2
	eng.limit.Store(int64(limit))
	eng.logger.Warn("etcd allows fewer operations in a transaction than configured", "operations", limit)
}
