package engine

import (
	"iter"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const (
	// MaxGroupBytes keeps a group well below etcd's default limit of 1.5 MiB for a request.
	MaxGroupBytes = 1 << 20
	// headOps is how many comparisons or operations a transaction needs for the head of the ledger.
	headOps = 1
	// callOps is how many operations most calls need, including the operation for the head of a space.
	callOps = 3
)

// group is the calls of one transaction. It is committed as a whole, or not at all.
type group struct {
	calls  []*call
	spaces map[ledger.SpaceID]*part // the spaces that its calls are on
	keys   map[string]bool          // the keys that its calls change or compare
	size   size
}

func newGroup() *group { return &group{spaces: map[ledger.SpaceID]*part{}, keys: map[string]bool{}} }

// part holds the changes of a group in one space.
type part struct {
	*Space
	count   int64 // the count of the head that the part puts, unless decided
	writes  bool
	decided bool // a call puts or removes the head itself
	head    []store.Change
}

// newPart begins the plans of a group in a space. The caller holds the space's lock.
func newPart(s *Space) *part {
	s.Begin()
	p := &part{Space: s, count: s.Head.Count + 1}
	if s.Frozen() {
		p.count = s.Head.Count // a frozen space does not count changes
	}
	return p
}

// nextHead returns the count of the head that the part puts, and never less than the argument.
func (p *part) nextHead(least int64) int64 { return max(p.count, least) }

// size is how much a transaction demands of etcd.
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

// ops returns how many operations etcd counts for the transaction.
func (n size) ops() int { return max(n.ifs, n.writes) + headOps }

// admits reports whether a call with these changes may join the group: no other call changes or compares one of their
// keys.
func (g *group) admits(p *part, changes []store.Change) bool {
	if g.keys[p.Keys.Head()] && g.spaces[p.ID] == nil {
		return false // a call on another space makes or removes this space
	}
	for i := range changes {
		if key := changes[i].Key; key != "" && g.keys[key] {
			return false
		}
	}
	return true
}

// add adds the changes of a call to the group. The caller holds the lock of the call's space.
func (g *group) add(p *part, changes []store.Change) {
	head := p.Keys.Head()
	g.spaces[p.ID], g.keys[head] = p, true
	for i := range changes {
		c := &changes[i]
		if c.Key != "" {
			g.keys[c.Key] = true
		}
		p.decided = p.decided || c.Key == head
		p.writes = p.writes || c.Verb != store.Stays || c.Tenure != nil
	}
	p.Take(changes)
}

// seal puts the next head of each space that the group changes, unless a call puts or removes that head itself.
func (g *group) seal() {
	for _, p := range g.spaces {
		if p.writes && !p.decided {
			p.head = []store.Change{p.Keys.PutHead(p.count)}
			g.size = g.size.plus(sizeOf(p.head))
		}
	}
}

// writes reports whether the group changes the ledger. A group of refusals only compares.
func (g *group) writes() bool { return g.size.writes > 0 }

// changes yields the changes of all calls, in their order, and then those of the heads.
func (g *group) changes() iter.Seq[*store.Change] {
	return func(yield func(*store.Change) bool) {
		for _, c := range g.calls {
			for i := range c.plan.Changes {
				if !yield(&c.plan.Changes[i]) {
					return
				}
			}
		}
		for _, p := range g.spaces {
			for i := range p.head {
				if !yield(&p.head[i]) {
					return
				}
			}
		}
	}
}

// entries returns the changes for memory, which were committed at the revision.
func (g *group) entries(revision int64) (entries []*store.Entry) {
	for c := range g.changes() {
		if c.Entry == nil {
			continue
		}
		entries = append(entries, c.Committed(revision))
	}
	return entries
}

// discard ends the drafts of the group in all its spaces, once the outcome of the group is certain.
func (g *group) discard() {
	for _, p := range g.spaces {
		p.Lock()
		p.Discard()
		p.Unlock()
	}
}

// pending is a group that was not committed, or whose outcome is unknown. The writer goes on when the outcome is
// certain.
type pending struct {
	group   *group
	sent    *store.Sent     // the transaction, if it may have been committed
	answers map[*call]error // the answers to the calls that were refuted
	answer  error           // the answer to the other calls; nil: they are planned again
}
