package engine

import (
	"errors"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// changes are the events of one revision, by what they concern.
type changes struct {
	spaces     map[ledger.SpaceID][]*store.Entry
	fences     []*store.Entry
	quotas     []*store.Entry
	came, left []ledger.PoolID
	wrote      bool
}

// sort sorts the events of one revision.
func (f follower) sort(events []*store.Entry) (changes, error) {
	c := changes{spaces: map[ledger.SpaceID][]*store.Entry{}}
	var reread error
	for _, e := range events {
		if p, ok := f.Table.Find(e.Pool); ok && e.Kind == store.PoolKey {
			e.Space = p.In.ID // the record may be damaged, or name another space
		}
		c.wrote = c.wrote || e.Put
		switch {
		case e.Pool == "":
		case e.Put:
			c.came = append(c.came, e.Pool)
		default:
			c.left = append(c.left, e.Pool)
		}
		switch e.Kind {
		case store.OtherKey:
		case store.RootsKey:
			c.fences = append(c.fences, e)
		case store.QuotaKey:
			c.quotas = append(c.quotas, e)
		case store.PoolKey:
			healed := f.inspectPool(e)
			if healed {
				reread = errReread
			}
			if e.Space != "" && !healed {
				c.spaces[e.Space] = append(c.spaces[e.Space], e)
			}
		default:
			c.spaces[e.Space] = append(c.spaces[e.Space], e)
		}
	}
	return c, reread
}

// errReread: the watch has skipped events, and the ledger has to be read again.
var errReread = errors.New("the ledger has to be read again")

// inspectPool notes whether the record of a pool that is not known can be read. It
// reports true if it can be read again: the events of its space were skipped until now.
func (f follower) inspectPool(e *store.Entry) (healed bool) {
	if _, known := f.Table.Find(e.Pool); known {
		return false // its space notes that
	}
	was := f.Table.Note(e)
	if e.Put && e.Damage != nil {
		f.logger.Error("a pool of the ledger cannot be read, and no root pool is registered", "pool", e.Pool, "error", e.Damage)
		return false
	}
	if healed = was && e.Put; healed {
		s := f.Spaces.Enter(e.Registered.Space)
		s.Stale = true
		s.Unlock()
	}
	return healed
}

// apply brings what the watch has brought at a revision into memory. errReread: the ledger has to be read again.
func (f follower) apply(revision int64, events []store.Entry) error {
	entries := make([]*store.Entry, len(events))
	for i := range events {
		entries[i] = &events[i]
	}
	c, reread := f.sort(entries)
	f.Table.Retired.Forget(c.came...)
	if c.wrote { // a retirement writes, too; else the ledger is being wiped
		f.Table.Retired.Add(c.left...)
	}
	f.bring(revision, c)
	for id := range c.spaces {
		f.Spaces.dropGone(id, revision)
	}
	return reread
}

// apply brings what this process has committed at a revision into memory, unless the watch has.
func (eng *Engine) apply(revision int64, entries []*store.Entry) {
	f := follower{eng}
	c, _ := f.sort(entries)
	f.bring(revision, c)
}

// bring brings the changes of one revision into memory, space by space, and then the fences, which say that all that
// was bound under them is counted. A space that begins comes first: a pool above it counts it, and is asked for more by that. One that
// ends comes before the pool above it, which takes over the number of its changes: nobody counts them twice.
func (f follower) bring(revision int64, c changes) {
	begin := func(entries []*store.Entry) bool { return begins(entries, revision) }
	stay := func(entries []*store.Entry) bool { return !begin(entries) && !ends(entries) }
	for _, turn := range []func([]*store.Entry) bool{begin, ends, stay} {
		for id, entries := range c.spaces {
			if turn(entries) {
				f.bringSpace(id, revision, entries)
			}
		}
	}
	for _, e := range c.fences {
		if e.Put {
			f.Table.Fenced(e.Cluster, revision)
		} else {
			f.Table.Unfenced(e.Cluster, revision)
		}
	}
	for _, e := range c.quotas {
		if e.Put {
			f.Table.Quotas.Fenced(accountOf(e), revision)
		} else {
			f.Table.Quotas.Lifted(accountOf(e), revision)
		}
	}
}

func accountOf(quota *store.Entry) space.Account {
	return space.Account{Class: quota.Class, Cluster: quota.Cluster}
}

// forget forgets a fence that memory has as put at the revision, and that is not in the ledger any more. It may have been
// deleted while the watch had a gap. ok is false while memory has root pools of a workspace: then it is the watch that lags.
func (eng *Engine) forget(fence *store.Entry, revision int64) (ok bool) {
	switch fence.Kind {
	case store.QuotaKey:
		eng.Table.Quotas.Lifted(accountOf(fence), revision)
	case store.RootsKey:
		if len(eng.Table.RootsIn(fence.Cluster).Pools) > 0 {
			return false
		}
		eng.Table.Unfenced(fence.Cluster, revision)
	default: // a key that is guarded by the head
	}
	return true
}

// bringSpace brings the changes of one revision to one space into memory.
func (f follower) bringSpace(id ledger.SpaceID, revision int64, entries []*store.Entry) {
	s := f.visit(id, revision, entries)
	if s == nil {
		return
	}
	defer s.Unlock()
	seen := s.Head
	if !s.Apply(entries, revision) {
		return
	}
	for _, e := range entries {
		if e.Kind == store.HeadKey && e.Put {
			f.Health.compareHeads(id, seen, e.Head)
		}
	}
}

// visit returns the space that a revision has changed, locked; nil if there is
// nothing to do. A space that was retired here is kept until the watch has brought its end.
func (f follower) visit(id ledger.SpaceID, revision int64, entries []*store.Entry) *Worker {
	if s, ok := f.Spaces.find(id); ok {
		s.Lock()
		if !s.Gone && s.Head.Revision > 0 && revision > s.Known && begins(entries, revision) {
			// A former space of this ID, whose end the watch has not brought here yet.
			s.Known = revision - 1
			s.Close()
		}
		if !s.Gone {
			return s
		}
		known := s.Known
		s.Unlock()
		if revision <= known {
			return nil
		}
	}
	if f.Watched.Get() >= revision { // the space is gone by now
		return nil
	}
	for _, e := range entries {
		if e.Put && e.Kind != store.BlockKey {
			return f.enter(id, revision)
		}
	}
	return nil
}

// enter returns a space that a revision has begun, locked; nil if the space is gone by now: it may have come and gone since the watch was
// looked at.
func (f follower) enter(id ledger.SpaceID, revision int64) *Worker {
	s := f.Spaces.Enter(id)
	if s.Known >= revision || f.Watched.Get() < revision {
		return s
	}
	s.DropIfEmpty()
	s.Unlock()
	return nil
}

// begins reports whether a space begins with changes of a revision.
func begins(entries []*store.Entry, revision int64) bool {
	return slices.ContainsFunc(entries, func(e *store.Entry) bool {
		return e.Kind == store.HeadKey && e.Put && e.Head.Created == revision
	})
}

// ends reports whether a space ends with changes of a revision.
func ends(entries []*store.Entry) bool {
	return slices.ContainsFunc(entries, func(e *store.Entry) bool { return e.Kind == store.HeadKey && !e.Put })
}

// follower keeps the memory of an engine in step with the ledger: it reads the ledger once, and
// then applies what the watch brings.
type follower struct{ *Engine }
