package allocator

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// image is the ledger at one revision, as spaces that nobody else knows yet.
type image struct {
	revision int64
	spaces   map[SpaceID]*space
	fences   map[ClusterName]int64
	quotas   map[account]int64
	reserved reserved
	leases   map[position]Lease
	damage   damage // of the records of pools
}

// load reads the ledger and brings memory up to what it says.
func (a *Allocator) load(ctx context.Context) error {
	im, err := a.snapshot(ctx)
	if err != nil {
		return err
	}
	a.install(im)
	return nil
}

// snapshot reads pools, then fences, then heads and blocks, all as of the
// revision of the first read.
func (a *Allocator) snapshot(ctx context.Context) (*image, error) {
	im := &image{spaces: map[SpaceID]*space{}, fences: map[ClusterName]int64{}, quotas: map[account]int64{}, reserved: reserved{}, leases: map[position]Lease{}, damage: damage{}}
	pages := a.pages(0)
	for _, part := range []string{a.keys.pools(), a.keys.workspaces(), a.keys.quotas(), a.keys.reservations(), a.keys.spaces()} {
		if part == a.keys.spaces() {
			pages.windows = windows(a.keys, im.pools(), false)
		}
		for kv, err := range pages.keys(ctx, part, clientv3.GetPrefixRangeEnd(part)) {
			if err != nil {
				return nil, err
			}
			im.revision = pages.revision
			a.image(im, kv)
		}
	}
	im.revision = pages.revision
	return im, nil
}

// image adds one key to an image.
func (a *Allocator) image(im *image, kv *mvccpb.KeyValue) {
	e := a.entry(&clientv3.Event{Type: clientv3.EventTypePut, Kv: kv})
	switch e.kind {
	case poolKey:
		if e.damage != nil {
			im.damage[string(kv.Key)] = e.damage
			return
		}
		im.space(a, e.record.Space).join(e.record)
	case rootsKey:
		im.fences[e.cluster] = kv.ModRevision
	case quotaKey:
		im.quotas[e.account()] = kv.ModRevision
	case headKey:
		s := im.space(a, e.space)
		s.head = e.head
		s.inspect(e)
	case blockKey:
		s := im.space(a, e.space)
		if e.prefix.IsValid() {
			s.take(e.prefix)
			s.note(e)
		}
		if e.lease != nil {
			im.leases[position{e.space, e.prefix}] = *e.lease
		}
		s.inspect(e)
	case waitersKey:
		im.space(a, e.space).marked = e.writer
	case reservationKey:
		im.reserved.add(e.cluster, e.claim)
	case otherKey, turnKey:
	}
}

// pools are those that were read.
func (im *image) pools() []Pool {
	var pools []Pool
	for _, s := range im.spaces {
		for _, p := range s.pools {
			pools = append(pools, p.Pool)
		}
	}
	return pools
}

func (im *image) space(a *Allocator, id SpaceID) *space {
	s, ok := im.spaces[id]
	if !ok {
		s = newSpace(a, id)
		s.known, s.draft = im.revision, true
		im.spaces[id] = s
	}
	return s
}

// install brings memory up to an image. Spaces that have moved on are left as
// they are: the watch goes on from the image's revision.
func (a *Allocator) install(im *image) {
	a.compareRevision(a.watched.get(), im.revision)
	for id, fresh := range im.spaces {
		fresh.known = im.revision
		s := a.enter(id)
		if fresh.head.precedes(s.head) {
			a.replaced(fmt.Sprintf("space %s has seen %d changes, and the ledger has %d", id, s.head.count, fresh.head.count))
		}
		if s.stale || s.known < max(fresh.head.revision, 1) {
			s.absorb(fresh)
		}
		s.unlock()
	}
	for _, s := range a.others(im) {
		s.lock()
		if s.head.revision > 0 && s.known <= im.revision {
			s.close()
			a.drop(s)
		}
		s.unlock()
	}
	for c, revision := range im.fences {
		a.fenced(c, revision)
	}
	for to, revision := range im.quotas {
		a.quotas.fenced(to, revision)
	}
	a.reservations.reset(im.reserved)
	a.leases.reset(im.leases)
	a.mu.Lock()
	a.damage = im.damage
	a.mu.Unlock()
	a.watched.advance(im.revision)
}

// others returns the spaces that are not in an image.
func (a *Allocator) others(im *image) []*space {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var others []*space
	for id, s := range a.spaces {
		if im.spaces[id] == nil {
			others = append(others, s)
		}
	}
	return others
}

// absorb makes the space what a fresh reading says. What is reserved, and who
// waits, stays.
func (s *space) absorb(fresh *space) {
	old := s.pools
	s.known, s.head, s.pools, s.damage, s.stale = fresh.known, fresh.head, nil, fresh.damage, false
	s.marked = fresh.marked
	s.balance(fresh)
	for _, p := range fresh.pools {
		p.space = s
		for prefix := range s.reserved {
			p.index.Take(prefix)
		}
		s.pools = append(s.pools, p)
		s.touch(p.ID)
	}
	for _, was := range old {
		s.succeed(was)
	}
	for _, p := range s.pools {
		s.alloc.enlist(p)
		s.offer(p, p.CIDR)
	}
}

// succeed hands the waiting list of a pool that was read again to the new one,
// or ends it.
func (s *space) succeed(was *pool) {
	p := s.pool(was.ID)
	if p != nil {
		p.unseen = was.unseen
	}
	if p != nil && p.State == PoolOpen {
		p.waiting, p.retiring = was.waiting, was.retiring
		return
	}
	if p == nil {
		s.alloc.strike(was)
		s.left = append(s.left, was.Pool)
	}
	s.dismiss(was)
}
