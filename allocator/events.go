package allocator

import (
	clientv3 "go.etcd.io/etcd/client/v3"
)

// entry is one event, with what its key says.
type entry struct {
	name
	*clientv3.Event
	record Pool // of a pool that was put
	head   head // that was put
	owners owners
	lease  *Lease  // of the block that was put
	cooled *cooled // the block, if it cools
	writer string  // that keeps the list of waiters
	damage error   // why what was put cannot be read
}

func (e entry) put() bool { return e.Type == clientv3.EventTypePut }

// entry reads an event, as far as memory needs it. The space of a pool is the one that
// memory has it in, else the one that its record names; empty if that cannot be read.
func (a *Allocator) entry(ev *clientv3.Event) entry {
	key := string(ev.Kv.Key)
	n, err := a.keys.parse(key)
	e := entry{name: n, Event: ev, damage: err}
	switch {
	case err != nil:
	case n.kind == poolKey:
		if e.put() {
			e.record, e.damage = decodePool(key, n.pool, ev.Kv.Value)
			e.space = e.record.Space
		}
		if p, ok := a.find(n.pool); ok {
			e.space = p.space.id
		}
	case n.kind == headKey && e.put():
		e.head, e.damage = readHead(ev.Kv)
	case n.kind == waitersKey && e.put():
		e.writer = decodeWriter(ev.Kv.Value)
	case n.kind == blockKey && e.put():
		if r, err := decodeRecord(n.space, n.prefix, ev.Kv); err != nil {
			e.damage = err
		} else {
			e.owners, e.lease, e.cooled = r.owners(), r.lease(), r.cooled()
		}
	}
	return e
}

// changes are what one revision has done, by what it concerns.
type changes struct {
	spaces     map[SpaceID][]entry
	fences     []entry
	quotas     []entry
	came, left []PoolID
	wrote      bool
}

// sort sorts the events of one revision.
func (a *Allocator) sort(events []*clientv3.Event) (changes, error) {
	c := changes{spaces: map[SpaceID][]entry{}}
	var reread error
	for _, ev := range events {
		e := a.entry(ev)
		c.wrote = c.wrote || e.put()
		switch {
		case e.pool == "":
		case e.put():
			c.came = append(c.came, e.pool)
		default:
			c.left = append(c.left, e.pool)
		}
		switch e.kind {
		case otherKey:
		case rootsKey:
			c.fences = append(c.fences, e)
		case quotaKey:
			c.quotas = append(c.quotas, e)
		case turnKey:
			a.asked(e)
		case blockKey:
			a.leases.seen(e)
			c.spaces[e.space] = append(c.spaces[e.space], e)
		case reservationKey:
			a.reservations.seen(e.cluster, e.claim, e.put())
		case poolKey:
			healed := a.inspectPool(e)
			if healed {
				reread = errReread
			}
			if e.space != "" && !healed {
				c.spaces[e.space] = append(c.spaces[e.space], e)
			}
		default:
			c.spaces[e.space] = append(c.spaces[e.space], e)
		}
	}
	return c, reread
}

// apply brings one revision into memory, space by space. errReread: that is not enough.
func (a *Allocator) apply(revision int64, events []*clientv3.Event) error {
	c, reread := a.sort(events)
	a.noteRetired(c.came, false)
	if c.wrote { // who removes without writing does not retire: the ledger is being wiped
		a.noteRetired(c.left, true)
	}
	for id, entries := range c.spaces {
		a.applySpace(id, revision, entries)
	}
	for _, e := range c.fences {
		if e.put() {
			a.fenced(e.cluster, revision)
		} else {
			a.unfenced(e.cluster, revision)
		}
	}
	for _, e := range c.quotas {
		if e.put() {
			a.quotas.fenced(e.account(), revision)
		} else {
			a.quotas.lifted(e.account(), revision)
		}
	}
	return reread
}

// applySpace brings what one revision did to one space into memory, unless it
// is known there: own transactions are applied when they return.
func (a *Allocator) applySpace(id SpaceID, revision int64, entries []entry) {
	s := a.visit(id, revision, entries)
	if s == nil {
		return
	}
	defer s.unlock()
	if revision <= s.known {
		return
	}
	s.known = revision
	for _, e := range entries {
		if s.inspect(e); e.kind == poolKey && e.put() && e.damage == nil {
			s.replace(e.record)
		}
	}
	for _, e := range entries {
		s.apply(e)
	}
	if s.gone {
		a.drop(s)
	}
}

// visit returns the space that a revision has changed, locked; nil if there is
// nothing to do. A space that was retired here is remembered until the watch
// has seen that, too.
func (a *Allocator) visit(id SpaceID, revision int64, entries []entry) *space {
	a.mu.RLock()
	s, ok := a.spaces[id]
	a.mu.RUnlock()
	if ok {
		s.lock()
		if !s.gone {
			return s
		}
		known := s.known
		s.unlock()
		if revision >= known {
			a.drop(s)
		}
		if revision <= known {
			return nil
		}
	}
	for _, e := range entries {
		if e.put() && e.kind != blockKey {
			return a.enter(id)
		}
	}
	return nil
}

// replace brings the record of a pool up to date, or a new pool in.
func (s *space) replace(record Pool) {
	if p := s.pool(record.ID); p != nil {
		s.update(p, record)
		return
	}
	s.alloc.enlist(s.join(record))
}

// apply brings one event into the space. A block whose value cannot be read is taken,
// and nobody's.
func (s *space) apply(e entry) {
	switch {
	case e.kind == blockKey && !e.prefix.IsValid():
	case e.kind == blockKey && e.IsCreate():
		s.take(e.prefix)
		s.evict(e.prefix)
		s.note(e)
	case e.kind == blockKey && e.put():
		s.note(e)
	case e.kind == blockKey && !e.put():
		s.disown(e.prefix)
	case e.kind == waitersKey:
		s.marked = e.writer
	case e.kind == headKey && e.put():
		s.follow(e.head)
		s.taken()
	case e.kind == headKey && s.head.revision > 0:
		s.close()
	case e.kind == poolKey && !e.put():
		if p := s.pool(e.pool); p != nil {
			s.leave(p)
			s.alloc.strike(p)
		}
	}
}
