package engine

import (
	"iter"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

const (
	// MaxGroupBytes keeps a group well below etcd's default limit of 1.5 MiB
	// a request.
	MaxGroupBytes = 1 << 20
	// headOps is how many comparisons or operations a transaction needs for the heads of its space and of the ledger.
	headOps = 3
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

// nextHead returns the head that the group puts, if its count is least or more.
func (g *group) nextHead(least int64) store.Head {
	return g.at.Next(max(g.count, least), g.by)
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

// pending is a group that was not committed, or may not have been. The worker goes on when that is certain, and memory
// is up to date with it.
type pending struct {
	group   *group
	unknown bool            // whether it was committed
	moved   bool            // others have written since it was sent: whether it was committed, the watch shows
	need    int64           // revision of a change in this ledger that the watch has to reach
	needAll int64           // revision of any change that it has to reach
	answers map[*call]error // of its calls that were refuted
	answer  error           // of the others; nil: they are planned again
}
