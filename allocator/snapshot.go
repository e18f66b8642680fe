package allocator

import (
	"context"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// image is the ledger at one revision, as spaces that nobody else knows yet.
type image struct {
	revision int64
	spaces   map[SpaceID]*space.Space
	fences   map[ClusterName]int64
	quotas   map[space.Account]int64
	reserved space.Reserved
	leases   map[space.Position]Lease
	damage   space.Damage // of the records of pools
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
	im := &image{spaces: map[SpaceID]*space.Space{}, fences: map[ClusterName]int64{}, quotas: map[space.Account]int64{}, reserved: space.Reserved{}, leases: map[space.Position]Lease{}, damage: space.Damage{}}
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
		im.space(a, e.Registered.Space).AddPool(e.Registered)
	case store.RootsKey:
		im.fences[e.Cluster] = e.Revision
	case store.QuotaKey:
		im.quotas[space.Account{Class: e.Class, Cluster: e.Cluster}] = e.Revision
	case store.HeadKey:
		s := im.space(a, e.Space)
		s.Head = e.Head
		s.Inspect(e)
	case store.BlockKey:
		im.block(a, e)
	case store.WaitersKey:
		im.space(a, e.Space).Marked = e.Writer
	case store.ReservationKey:
		im.reserved.Add(e.Cluster, e.Claim)
	case store.OtherKey, store.TurnKey:
	}
}

// block adds a block to an image. One that cannot be read is taken, and nobody's.
func (im *image) block(a *Allocator, e store.Entry) {
	s := im.space(a, e.Space)
	if e.Prefix.IsValid() {
		s.Take(e.Prefix)
		s.Note(e)
	}
	if lease, ok := space.LeaseOf(e.Block); ok {
		im.leases[space.Position{Space: e.Space, Prefix: e.Prefix}] = lease
	}
	s.Inspect(e)
}

func (im *image) space(a *Allocator, id SpaceID) *space.Space {
	s, ok := im.spaces[id]
	if !ok {
		s = space.NewDraft(a.table, id)
		im.spaces[id] = s
	}
	return s
}

// install brings memory up to an image. Spaces that have moved on are left as
// they are: the watch goes on from the image's revision.
func (a *Allocator) install(im *image) {
	a.compareRevision(a.watched.get(), im.revision)
	for id, fresh := range im.spaces {
		fresh.Known = im.revision
		s := a.enter(id)
		if fresh.Head.Precedes(s.Head) {
			a.replaced(fmt.Sprintf("space %s has seen %d changes, and the ledger has %d", id, s.Head.Count, fresh.Head.Count))
		}
		if s.Stale || s.Known < max(fresh.Head.Revision, 1) {
			s.ReplaceBy(fresh)
		}
		s.Unlock()
	}
	for _, s := range a.others(im) {
		s.Lock()
		if s.Head.Revision > 0 && s.Known <= im.revision {
			s.Close()
			a.drop(s)
		}
		s.Unlock()
	}
	for c, revision := range im.fences {
		a.table.Fenced(c, revision)
	}
	for to, revision := range im.quotas {
		a.table.Quotas.Fenced(to, revision)
	}
	a.table.Reservations.Reset(im.reserved)
	a.table.Leases.Reset(im.leases)
	a.table.SetDamage(im.damage)
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
