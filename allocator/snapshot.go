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
func (eng *engine) load(ctx context.Context) error {
	im, err := eng.snapshot(ctx)
	if err != nil {
		return err
	}
	eng.install(im)
	return nil
}

// snapshot reads the ledger as of one revision.
func (eng *engine) snapshot(ctx context.Context) (*image, error) {
	im := &image{spaces: map[SpaceID]*space.Space{}, fences: map[ClusterName]int64{}, quotas: map[space.Account]int64{}, reserved: space.Reserved{}, leases: map[space.Position]Lease{}, damage: space.Damage{}}
	revision, err := eng.store.Snapshot(ctx, func(e store.Entry) { eng.image(im, e) })
	im.revision = revision
	return im, err
}

// image adds one key to an image.
func (eng *engine) image(im *image, e store.Entry) {
	switch e.Kind {
	case store.PoolKey:
		if e.Damage != nil {
			im.damage[e.Text] = e.Damage
			return
		}
		im.space(eng, e.Registered.Space).AddPool(e.Registered)
	case store.RootsKey:
		im.fences[e.Cluster] = e.Revision
	case store.QuotaKey:
		im.quotas[space.Account{Class: e.Class, Cluster: e.Cluster}] = e.Revision
	case store.HeadKey:
		s := im.space(eng, e.Space)
		s.Head = e.Head
		s.Inspect(e)
	case store.BlockKey:
		im.block(eng, e)
	case store.WaitersKey:
		im.space(eng, e.Space).Marked = e.Writer
	case store.ReservationKey:
		im.reserved.Add(e.Cluster, e.Claim)
	case store.OtherKey, store.TurnKey:
	}
}

// block adds a block to an image. One that cannot be read is taken, and nobody's.
func (im *image) block(eng *engine, e store.Entry) {
	s := im.space(eng, e.Space)
	if e.Prefix.IsValid() {
		s.Take(e.Prefix)
		s.Note(e)
	}
	if lease, ok := space.LeaseOf(e.Block); ok {
		im.leases[space.Position{Space: e.Space, Prefix: e.Prefix}] = lease
	}
	s.Inspect(e)
}

func (im *image) space(eng *engine, id SpaceID) *space.Space {
	s, ok := im.spaces[id]
	if !ok {
		s = space.NewDraft(eng.table, id)
		im.spaces[id] = s
	}
	return s
}

// install brings memory up to an image. Spaces that have moved on are left as
// they are: the watch goes on from the image's revision.
func (eng *engine) install(im *image) {
	eng.compareRevision(eng.watched.get(), im.revision)
	for id, fresh := range im.spaces {
		fresh.Known = im.revision
		s := eng.enter(id)
		if fresh.Head.Precedes(s.Head) {
			eng.replaced(fmt.Sprintf("space %s has seen %d changes, and the ledger has %d", id, s.Head.Count, fresh.Head.Count))
		}
		if s.Stale || s.Known < max(fresh.Head.Revision, 1) {
			s.ReplaceBy(fresh)
		}
		s.Unlock()
	}
	for _, s := range eng.others(im) {
		s.Lock()
		if s.Head.Revision > 0 && s.Known <= im.revision {
			s.Close()
			eng.drop(s)
		}
		s.Unlock()
	}
	for c, revision := range im.fences {
		eng.table.Fenced(c, revision)
	}
	for to, revision := range im.quotas {
		eng.table.Quotas.Fenced(to, revision)
	}
	eng.table.Reservations.Reset(im.reserved)
	eng.table.Leases.Reset(im.leases)
	eng.table.SetDamage(im.damage)
	eng.watched.advance(im.revision)
}

// others returns the spaces that are not in an image.
func (eng *engine) others(im *image) []*worker {
	eng.mu.RLock()
	defer eng.mu.RUnlock()
	var others []*worker
	for id, s := range eng.spaces {
		if im.spaces[id] == nil {
			others = append(others, s)
		}
	}
	return others
}
