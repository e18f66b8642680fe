package allocator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// retryWatch is the pause before a watch that was cut off is started again.
const retryWatch = 250 * time.Millisecond

// follow keeps memory in step with the ledger until the Allocator is closed.
func (a *Allocator) follow() {
	ctx := clientv3.WithRequireLeader(a.ctx)
	for {
		err := a.stream(ctx)
		if a.ctx.Err() != nil {
			return
		}
		a.health.setWatch(fmt.Errorf("watch the ledger: %w", a.unavailable(err)))
		a.options.Logger.Warn("the watch on the ledger was cut off", "error", err)
		select {
		case <-time.After(retryWatch):
		case <-a.ctx.Done():
			return
		}
		if is(err, rpctypes.ErrCompacted) {
			a.reload()
		}
	}
}

// reload reads the whole ledger again, after the watch has missed something.
func (a *Allocator) reload() {
	if err := a.load(a.ctx); err != nil && a.ctx.Err() == nil {
		a.health.setWatch(fmt.Errorf("read the ledger again: %w", err))
		a.options.Logger.Warn("cannot read the ledger again yet", "error", err)
	}
}

// stream applies what the watch delivers, from where memory is, until it ends.
func (a *Allocator) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := a.client.Watch(ctx, string(a.keys)+"/", clientv3.WithPrefix(), clientv3.WithRev(a.watched.get()+1), clientv3.WithCreatedNotify())
	for resp := range watch {
		if err := resp.Err(); err != nil {
			return err
		}
		a.health.setWatch(nil)
		if err := a.follows(resp.Events); err != nil {
			return err
		}
		if resp.IsProgressNotify() {
			a.watched.advance(resp.Header.Revision)
		}
	}
	return errors.New("the watch was closed")
}

// follows applies events, one revision at a time.
func (a *Allocator) follows(events []*clientv3.Event) error {
	for len(events) > 0 {
		revision, n := events[0].Kv.ModRevision, 1
		for n < len(events) && events[n].Kv.ModRevision == revision {
			n++
		}
		if err := a.apply(revision, events[:n]); err != nil {
			return err
		}
		a.watched.advance(revision)
		events = events[n:]
	}
	return nil
}

// entry is one event, with what its key says.
type entry struct {
	name
	*clientv3.Event
	record Pool  // of a pool that was put
	count  int64 // of a head that was put
}

func (e entry) put() bool { return e.Type == clientv3.EventTypePut }

// apply brings one revision into memory, space by space.
func (a *Allocator) apply(revision int64, events []*clientv3.Event) error {
	var fences []ClusterName
	var quotas []account
	var came, left []PoolID
	wrote := false
	spaces := map[SpaceID][]entry{}
	for _, ev := range events {
		e, err := a.entry(ev)
		if err != nil {
			return err
		}
		wrote = wrote || e.put()
		switch {
		case e.pool == "":
		case e.put():
			came = append(came, e.pool)
		default:
			left = append(left, e.pool)
		}
		switch e.kind {
		case otherKey:
		case rootsKey:
			fences = append(fences, e.cluster)
		case quotaKey:
			quotas = append(quotas, e.account())
		default:
			spaces[e.space] = append(spaces[e.space], e)
		}
	}
	a.noteRetired(came, false)
	if wrote { // who removes without writing does not retire: the ledger is being wiped
		a.noteRetired(left, true)
	}
	for id, entries := range spaces {
		a.applySpace(id, revision, entries)
	}
	for _, c := range fences {
		a.fenced(c, revision)
	}
	for _, to := range quotas {
		a.quotas.fenced(to, revision)
	}
	return nil
}

// entry reads an event, as far as memory needs it.
func (a *Allocator) entry(ev *clientv3.Event) (entry, error) {
	key := string(ev.Kv.Key)
	n, err := a.keys.parse(key)
	e := entry{name: n, Event: ev}
	if err != nil || n.kind == otherKey {
		return e, err
	}
	switch {
	case n.kind == poolKey && e.put():
		e.record, err = decodePool(key, n.pool, ev.Kv.Value)
		e.space = e.record.Space
	case n.kind == poolKey:
		if p, ok := a.find(n.pool); ok {
			e.space = p.space.id
		} else {
			e.kind = otherKey
		}
	case n.kind == headKey && e.put():
		e.count, err = decodeHead(key, ev.Kv.Value)
	case e.put():
		err = checkVersion(key, ev.Kv.Value)
	}
	return e, err
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
		if e.kind == poolKey && e.put() {
			s.replace(e.record)
		}
	}
	for _, e := range entries {
		s.apply(e, revision)
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

// apply brings one event into the space.
func (s *space) apply(e entry, revision int64) {
	switch {
	case e.kind == blockKey && e.IsCreate():
		s.take(e.prefix)
		s.evict(e.prefix)
		s.note(e.prefix, e.Kv)
	case e.kind == blockKey && e.put():
		s.note(e.prefix, e.Kv)
	case e.kind == blockKey && !e.put():
		s.disown(e.prefix)
	case e.kind == headKey && e.put():
		s.head = head{revision: revision, count: e.count}
	case e.kind == headKey && s.head.revision > 0:
		s.close()
	case e.kind == poolKey && !e.put():
		if p := s.pool(e.pool); p != nil {
			s.leave(p)
			s.alloc.strike(p)
		}
	}
}
