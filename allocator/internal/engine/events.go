package engine

import (
	"cmp"
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
func (f follower) sort(events []store.Entry) (changes, error) {
	c := changes{spaces: map[ledger.SpaceID][]*store.Entry{}}
	var reread error
	for i := range events {
		e := &events[i]
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
		case store.OtherKey, store.WaitersKey:
		case store.LeaderKey:
			f.leader.Store(new(e.Leader))
		case store.RootsKey:
			c.fences = append(c.fences, e)
		case store.QuotaKey:
			c.quotas = append(c.quotas, e)
		case store.TurnKey:
			f.noteTurn(e)
		case store.BlockKey:
			f.noteBlock(e)
			c.spaces[e.Space] = append(c.spaces[e.Space], e)
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

// noteTurn notes that another writer asks for a turn in a space that this one writes. A request
// that cannot be read is ignored.
func (f follower) noteTurn(e *store.Entry) {
	s, ok := f.Spaces.find(e.Space)
	if !ok || !e.Put || e.Damage != nil || e.Turn.Writer == f.writer {
		return
	}
	s.Lock()
	defer s.Unlock()
	if s.Working {
		s.turn.ask(e.Turn)
	}
}

// noteBlock notes a change of a block, of its lease, and of its reservations. A block that was deleted,
// or cannot be read, has none.
func (f follower) noteBlock(e *store.Entry) {
	at := space.Position{Space: e.Space, Prefix: e.Prefix}
	f.Table.Journal.Put(at, e.Block)
	f.Table.Reservations.Put(at, e.Block)
	if lease, ok := space.LeaseOf(e.Block); ok {
		f.Table.Leases.Put(at, lease)
		return
	}
	f.Table.Leases.Remove(at)
}

// apply brings one revision into memory, space by space. errReread: the ledger has to be read again.
func (f follower) apply(revision int64, events []store.Entry) error {
	c, reread := f.sort(events)
	f.Table.NoteRetired(c.came, false)
	if c.wrote { // a retirement writes, too; else the ledger is being wiped
		f.Table.NoteRetired(c.left, true)
	}
	for id, entries := range c.spaces {
		f.applySpace(id, revision, entries)
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
			f.Table.Quotas.Fenced(space.Account{Class: e.Class, Cluster: e.Cluster}, revision)
		} else {
			f.Table.Quotas.Lifted(space.Account{Class: e.Class, Cluster: e.Cluster}, revision)
		}
	}
	return reread
}

// applySpace brings the changes of one revision to one space into memory, unless they
// are there: the worker applies its own transactions when they return.
func (f follower) applySpace(id ledger.SpaceID, revision int64, entries []*store.Entry) {
	s := f.visit(id, revision, entries)
	if s == nil {
		return
	}
	defer s.Unlock()
	if revision <= s.Known {
		return
	}
	s.Known = revision
	slices.SortStableFunc(entries, poolsFirst)
	for _, e := range entries {
		if e.Kind == store.HeadKey && e.Put {
			f.Health.compareHeads(id, s.Head, e.Head)
			s.turn.take()
		}
		s.Apply(e)
	}
	if s.Gone {
		f.Spaces.drop(s)
	}
}

// poolsFirst puts the records of pools before their blocks.
func poolsFirst(a, b *store.Entry) int {
	rank := func(e *store.Entry) int {
		if e.Kind == store.PoolKey && e.Put {
			return 0
		}
		return 1
	}
	return cmp.Compare(rank(a), rank(b))
}

// visit returns the space that a revision has changed, locked; nil if there is
// nothing to do. A space that was retired here is kept until the watch has brought its end.
func (f follower) visit(id ledger.SpaceID, revision int64, entries []*store.Entry) *Worker {
	if s, ok := f.Spaces.find(id); ok {
		s.Lock()
		if !s.Gone {
			return s
		}
		known := s.Known
		s.Unlock()
		if revision >= known {
			f.Spaces.drop(s)
		}
		if revision <= known {
			return nil
		}
	}
	for _, e := range entries {
		if e.Put && e.Kind != store.BlockKey {
			return f.Spaces.Enter(id)
		}
	}
	return nil
}
