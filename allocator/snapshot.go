package allocator

import (
	"context"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
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

// snapshot reads the ledger as of one revision.
func (a *Allocator) snapshot(ctx context.Context) (*image, error) {
	im := &image{spaces: map[SpaceID]*space{}, fences: map[ClusterName]int64{}, quotas: map[account]int64{}, reserved: reserved{}, leases: map[position]Lease{}, damage: damage{}}
	revision, err := a.store.Snapshot(ctx, func(e store.Entry) { a.image(im, e) })
	im.revision = revision
	return im, err
}

// image adds one key to an image.
func (a *Allocator) image(im *image, e store.Entry) {
	switch e.Kind {
	case store.PoolKey:
		if e.Damage != nil {
			im.damage[e.Text] = e.Damage
			return
		}
		im.space(a, e.Registered.Space).join(e.Registered)
	case store.RootsKey:
		im.fences[e.Cluster] = e.Revision
	case store.QuotaKey:
		im.quotas[account{class: e.Class, cluster: e.Cluster}] = e.Revision
	case store.HeadKey:
		s := im.space(a, e.Space)
		s.head = e.Head
		s.inspect(e)
	case store.BlockKey:
		im.block(a, e)
	case store.WaitersKey:
		im.space(a, e.Space).marked = e.Writer
	case store.ReservationKey:
		im.reserved.add(e.Cluster, e.Claim)
	case store.OtherKey, store.TurnKey:
	}
}

// block adds a block to an image. One that cannot be read is taken, and nobody's.
func (im *image) block(a *Allocator, e store.Entry) {
	s := im.space(a, e.Space)
	if e.Prefix.IsValid() {
		s.take(e.Prefix)
		s.note(e)
	}
	if lease, ok := leaseOf(e.Block); ok {
		im.leases[position{e.Space, e.Prefix}] = lease
	}
	s.inspect(e)
}

func (im *image) space(a *Allocator, id SpaceID) *space {
	s, ok := im.spaces[id]
	if !ok {
		s = newDraft(a.table, id)
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
		if fresh.head.Precedes(s.head) {
			a.replaced(fmt.Sprintf("space %s has seen %d changes, and the ledger has %d", id, s.head.Count, fresh.head.Count))
		}
		if s.stale || s.known < max(fresh.head.Revision, 1) {
			s.absorb(fresh)
		}
		s.unlock()
	}
	for _, s := range a.others(im) {
		s.lock()
		if s.head.Revision > 0 && s.known <= im.revision {
			s.close()
			a.drop(s)
		}
		s.unlock()
	}
	for c, revision := range im.fences {
		a.table.fenced(c, revision)
	}
	for to, revision := range im.quotas {
		a.table.quotas.fenced(to, revision)
	}
	a.table.reservations.reset(im.reserved)
	a.table.leases.reset(im.leases)
	a.table.setDamage(im.damage)
	a.watched.advance(im.revision)
}

// others returns the spaces that are not in an image.
func (a *Allocator) others(im *image) []*worker {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var others []*worker
	for id, s := range a.spaces {
		if im.spaces[id] == nil {
			others = append(others, s)
		}
	}
	return others
}
