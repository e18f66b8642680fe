package engine

import (
	"errors"
	"fmt"
	"iter"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const (
	// MaxGroupBytes keeps a group well below etcd's default limit of 1.5 MiB
	// a request.
	MaxGroupBytes = 1 << 20
	// headOps is how many comparisons or operations a transaction needs for the head.
	headOps = 2
	// callOps is how many most calls need.
	callOps = 3
)

// group is the calls of one transaction, which is carried out as a whole or not at all.
type group struct {
	calls []*call
	keys  store.SpaceKeys
	at    store.Head // the head of the space when the group was planned
	known int64      // all changes of the space up to this revision were known then
	by    string     // the name of its transaction
	count int64      // of the head that it puts, unless one of its calls decides otherwise
	head  []store.Change
	draft *space.Draft
	size  size
}

// size is how much a transaction asks of etcd.
type size struct{ ifs, writes, bytes int }

func sizeOf(changes []store.Change) (n size) {
	for i := range changes {
		c := &changes[i]
		if c.Was != store.Any {
			n.ifs++
		}
		if c.Verb != store.Stays || c.Tenure != nil {
			n.writes++
		}
		n.bytes += len(c.Key) + len(c.Value)
		if c.Tenure != nil {
			n.bytes += c.Tenure.Size()
		}
	}
	return n
}

func (n size) plus(m size) size { return size{n.ifs + m.ifs, n.writes + m.writes, n.bytes + m.bytes} }

// ops returns how many operations etcd counts.
func (n size) ops() int { return max(n.ifs, n.writes) + headOps }

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

// nextHead returns the head that the group puts, if its count is least or more.
func (g *group) nextHead(least int64) store.Head {
	return g.at.Next(max(g.count, least), g.by)
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

// seal decides what becomes of the head, unless a call has.
func (g *group) seal() {
	key := g.keys.Head()
	for c := range g.changes() {
		if c.Key == key {
			g.draft.Head = c.Value
			return
		}
	}
	if g.writes() {
		next := g.nextHead(0)
		g.draft.Head = next.Value
		g.head = []store.Change{g.keys.PutHead(next)}
	}
}

// writes reports whether the group changes the ledger. One of refusals only compares.
func (g *group) writes() bool { return g.size.writes > 0 }

// changes yields the changes of all calls, in their order, and that of the head.
func (g *group) changes() iter.Seq[*store.Change] {
	return func(yield func(*store.Change) bool) {
		for _, c := range g.calls {
			for i := range c.plan.Changes {
				if !yield(&c.plan.Changes[i]) {
					return
				}
			}
		}
		for i := range g.head {
			if !yield(&g.head[i]) {
				return
			}
		}
	}
}

// entries returns the changes for memory, which were committed at the revision. A fence that was not compared may
// have been put by others since memory has seen it, under which they have written what memory lacks: the watch brings it.
func (g *group) entries(revision int64) (entries []*store.Entry) {
	for c := range g.changes() {
		if c.Entry == nil || c.Verb == store.Stays || c.Was == store.Any && c.Entry.IsFence() {
			continue
		}
		entries = append(entries, c.Committed(revision))
	}
	return entries
}
