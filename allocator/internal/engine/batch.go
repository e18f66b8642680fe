package engine

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const (
	// MaxGroupBytes keeps a group well below etcd's default limit of 1.5 MiB
	// a request.
	MaxGroupBytes = 1 << 20
	// shareOps is how many operations one more call takes: its own, its fence, and those
	// that it nests.
	shareOps = 5
	// retrySettle is the pause before the next attempt to settle a transaction.
	retrySettle = 250 * time.Millisecond
)

// group is the calls of one transaction.
type group struct {
	calls  []*call
	shares []Share
	Claims map[ledger.ClaimID]struct{}
	Blocks map[netip.Prefix]struct{} // that it changes
	at     store.Head                // the head of the space when the group was planned
	known  int64                     // all changes of the space up to this revision were known then
	stride int64                     // what it adds to the count of changes: 0 while the space is frozen
	// stamps are the fences of quotas that the group puts.
	stamps  map[space.Account]struct{}
	pledges space.Pending
	wish    *store.Turn // that it leaves if it loses; nil: none
	bytes   int
	parts   []part // of the transaction that is made of it
	flat    bool   // which carries them out itself, and not in nested transactions
	drops   bool   // the space ends with it
	writes  bool
}

// count is the number of the space's changes once the group is committed.
func (g *group) count() int64 {
	count := g.at.Count + g.stride
	for _, sh := range g.shares {
		count = max(count, sh.Count)
	}
	return count
}

// admits reports whether a call may join.
func (g *group) admits(c *call, maxOps int) bool {
	if len(g.calls) == 0 {
		return true
	}
	claim, ok := c.op.Claim()
	if _, twice := g.Claims[claim]; !ok || twice || g.Claims == nil {
		return false
	}
	if m, ok := c.op.(mover); ok && m.From() != "" {
		if _, twice := g.Claims[m.From()]; twice {
			return false
		}
	}
	if b, ok := c.op.(changer); ok {
		if _, twice := g.Blocks[b.Changes()]; twice {
			return false
		}
	}
	return g.ops()+shareOps < maxOps && g.bytes < MaxGroupBytes
}

// ops is how many operations the transaction has, without what each share nests: one for
// each call and fence, and the head. etcd counts what is nested on top, for one share at
// a time.
func (g *group) ops() int { return len(g.calls) + len(g.stamps) + 1 }

func (g *group) add(c *call, sh Share) {
	if claim, ok := c.op.Claim(); ok {
		if len(g.calls) == 0 {
			g.Claims = make(map[ledger.ClaimID]struct{}, cap(g.calls))
		}
		g.Claims[claim] = struct{}{}
	}
	if m, ok := c.op.(mover); ok && m.From() != "" && g.Claims != nil {
		g.Claims[m.From()] = struct{}{}
	}
	if b, ok := c.op.(changer); ok && b.Changes().IsValid() {
		if g.Blocks == nil {
			g.Blocks = map[netip.Prefix]struct{}{}
		}
		g.Blocks[b.Changes()] = struct{}{}
	}
	g.calls = append(g.calls, c)
	g.shares = append(g.shares, sh)
	g.drops = g.drops || sh.DropsSpace
	g.stamp(sh.Stamp)
	g.writes = g.writes || sh.writes()
	if sh.writes() {
		c.pledge(g.pledges)
	}
	for _, op := range sh.Then {
		g.bytes += len(op.KeyBytes()) + len(op.ValueBytes())
	}
	if sh.Farewell != nil {
		g.bytes += sh.Farewell.Size()
	}
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
		s.yield()
		g := s.gather()
		if g == nil {
			return
		}
		if !s.commit(g) {
			s.losses /= 2
			continue
		}
		s.losses++
	}
}

// yield lets a writer go first that has asked for a turn.
func (s *Worker) yield() {
	s.Lock()
	t := s.turn
	s.Unlock()
	if t.taken == nil {
		return
	}
	t.yield(s.Engine.Ctx)
	s.Lock()
	defer s.Unlock()
	if s.turn == t {
		s.turn = turn{}
	}
}

// gather plans the queued calls, in turn, until the transaction is full. nil: there are no calls, and
// the worker ends.
func (s *Worker) gather() *group {
	s.Lock()
	defer s.Unlock()
	maxOps := int(s.Engine.Limit.Load())
	g := newGroup(min(s.Queue.Size, maxOps))
	s.asOf(g)
	for c := s.Queue.peek(); c != nil && g.admits(c, maxOps); c = s.Queue.peek() {
		s.Queue.pop()
		if c.gone {
			continue
		}
		sh, err := s.place(c, g)
		if err != nil {
			c.finish(err)
			continue
		}
		g.add(c, sh)
	}
	if len(g.calls) == 0 {
		s.Working = false
		s.DropIfEmpty()
		return nil
	}
	return g
}

// newGroup makes a group for some calls.
func newGroup(calls int) *group {
	g := &group{}
	if calls > 1 {
		g.calls, g.shares = make([]*call, 0, calls), make([]Share, 0, calls)
	}
	return g
}

// asOf notes as of when a group is planned.
func (s *Worker) asOf(g *group) {
	g.at, g.known, g.stride = s.Head, max(s.Known, s.Engine.Watched.Get()), 0
	if s.Room.Pools.Frozen() < space.Untrusted {
		g.stride = 1
	}
}

// place plans a call for a group.
func (s *Worker) place(c *call, g *group) (Share, error) {
	span := c.traced.Placing()
	s.Placing = g
	sh, err := s.plan(c.op)
	s.Placing = nil
	EndSpan(span, err)
	return sh, err
}

// plan plans an op, unless the space can plan nothing.
func (s *Worker) plan(o Op) (Share, error) {
	if err := s.Unfit(); err != nil {
		return Share{}, err
	}
	return o.Plan(s)
}

// Unfit is why the space can plan nothing; nil: it can.
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

// errStale: memory is not what the ledger has.
var errStale = fmt.Errorf("%w: the space is being read again", ledger.ErrUnavailable)

// Distrust notes that a transaction has found memory wrong: it takes a prefix for free that the ledger has
// not as free. It has written nothing. The space plans nothing until it is read again.
func (s *Worker) Distrust(prefix netip.Prefix) error {
	s.Engine.logger.Error("memory differs from the ledger, which is read again", "space", s.ID, "prefix", prefix)
	s.Stale = true
	s.Engine.reread()
	return errStale
}

// refuse answers all queued calls with err. The worker stays with the pending
// transaction, even if the queue is empty: until that is settled, memory may differ from
// the ledger. It reports false, and the worker ends, when the allocator is closed.
func (s *Worker) refuse(err error) bool {
	s.Lock()
	defer s.Unlock()
	for _, l := range s.pending.losers {
		l.finish(err)
	}
	for c := s.Queue.peek(); c != nil; c = s.Queue.peek() {
		s.Queue.pop()
		c.finish(err)
	}
	s.Working = s.Engine.Ctx.Err() == nil
	return s.Working
}
