package allocator

// changes are what one revision has done, by what it concerns.
type changes struct {
	spaces     map[SpaceID][]Entry
	fences     []Entry
	quotas     []Entry
	came, left []PoolID
	wrote      bool
}

// sort sorts the events of one revision.
func (a *Allocator) sort(events []Entry) (changes, error) {
	c := changes{spaces: map[SpaceID][]Entry{}}
	var reread error
	for _, e := range events {
		if p, ok := a.find(e.pool); ok && e.kind == poolKey {
			e.space = p.space.id // whatever its record says, and if it cannot be read
		}
		c.wrote = c.wrote || e.Put
		switch {
		case e.pool == "":
		case e.Put:
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
			a.noteLease(e)
			c.spaces[e.space] = append(c.spaces[e.space], e)
		case reservationKey:
			a.reservations.seen(e.cluster, e.claim, e.Put)
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

// noteLease notes what has become of the lease of a block. One that was deleted, or cannot be
// read, has none.
func (a *Allocator) noteLease(e Entry) {
	at := position{e.space, e.prefix}
	if lease, ok := leaseOf(e.Block); ok {
		a.leases.put(at, lease)
		return
	}
	a.leases.remove(at)
}

// apply brings one revision into memory, space by space. errReread: that is not enough.
func (a *Allocator) apply(revision int64, events []Entry) error {
	c, reread := a.sort(events)
	a.noteRetired(c.came, false)
	if c.wrote { // who removes without writing does not retire: the ledger is being wiped
		a.noteRetired(c.left, true)
	}
	for id, entries := range c.spaces {
		a.applySpace(id, revision, entries)
	}
	for _, e := range c.fences {
		if e.Put {
			a.fenced(e.cluster, revision)
		} else {
			a.unfenced(e.cluster, revision)
		}
	}
	for _, e := range c.quotas {
		if e.Put {
			a.quotas.fenced(account{class: e.class, cluster: e.cluster}, revision)
		} else {
			a.quotas.lifted(account{class: e.class, cluster: e.cluster}, revision)
		}
	}
	return reread
}

// applySpace brings what one revision did to one space into memory, unless it
// is known there: own transactions are applied when they return.
func (a *Allocator) applySpace(id SpaceID, revision int64, entries []Entry) {
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
		if s.inspect(e); e.kind == poolKey && e.Put && e.Damage == nil {
			s.replace(e.Registered)
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
func (a *Allocator) visit(id SpaceID, revision int64, entries []Entry) *space {
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
		if e.Put && e.kind != blockKey {
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
func (s *space) apply(e Entry) {
	switch {
	case e.kind == blockKey && !e.prefix.IsValid():
	case e.kind == blockKey && e.Created:
		s.take(e.prefix)
		s.evict(e.prefix)
		s.note(e)
	case e.kind == blockKey && e.Put:
		s.note(e)
	case e.kind == blockKey && !e.Put:
		s.disown(e.prefix)
	case e.kind == waitersKey:
		s.marked = e.Writer
	case e.kind == headKey && e.Put:
		s.follow(e.Head)
		s.taken()
	case e.kind == headKey && s.head.revision > 0:
		s.close()
	case e.kind == poolKey && !e.Put:
		if p := s.pool(e.pool); p != nil {
			s.leave(p)
			s.alloc.strike(p)
		}
	}
}
