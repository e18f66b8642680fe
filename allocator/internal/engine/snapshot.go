package engine

import (
	"context"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// image is the ledger at one revision, as spaces that nobody else knows yet.
type image struct {
	revision int64
	spaces   map[ledger.SpaceID]*space.Space
	fences   map[ledger.ClusterName]int64
	quotas   map[space.Account]int64
	reserved space.Reserved
	leases   map[space.Position]ledger.Lease
	damage   space.Damage // of the records of pools
}

// load reads the ledger and brings memory up to what it says.
func (f follower) load(ctx context.Context) error {
	im, err := f.snapshot(ctx)
	if err != nil {
		return err
	}
	f.install(im)
	return nil
}

// snapshot reads the ledger as of one revision.
func (f follower) snapshot(ctx context.Context) (*image, error) {
	im := &image{spaces: map[ledger.SpaceID]*space.Space{}, fences: map[ledger.ClusterName]int64{}, quotas: map[space.Account]int64{}, reserved: space.Reserved{}, leases: map[space.Position]ledger.Lease{}, damage: space.Damage{}}
	revision, err := f.store.Snapshot(ctx, func(e store.Entry) { f.image(im, e) })
	im.revision = revision
	return im, err
}

// image adds one key to an image.
func (f follower) image(im *image, e store.Entry) {
	switch e.Kind {
	case store.PoolKey:
		if e.Damage != nil {
			im.damage[e.Text] = e.Damage
			return
		}
		im.space(f.Table, e.Registered.Space).AddPool(e.Registered)
	case store.RootsKey:
		im.fences[e.Cluster] = e.Revision
	case store.QuotaKey:
		im.quotas[space.Account{Class: e.Class, Cluster: e.Cluster}] = e.Revision
	case store.HeadKey:
		s := im.space(f.Table, e.Space)
		s.Head = e.Head
		s.Inspect(e)
	case store.BlockKey:
		im.block(f.Table, e)
	case store.WaitersKey:
		im.space(f.Table, e.Space).Marked = e.Writer
	case store.ReservationKey:
		im.reserved.Add(e.Cluster, e.Claim)
	case store.OtherKey, store.TurnKey:
	}
}

// block adds a block to an image. One that cannot be read is taken, and nobody's.
func (im *image) block(table *space.Table, e store.Entry) {
	s := im.space(table, e.Space)
	if e.Prefix.IsValid() {
		s.Take(e.Prefix)
		s.Note(e)
	}
	if lease, ok := space.LeaseOf(e.Block); ok {
		im.leases[space.Position{Space: e.Space, Prefix: e.Prefix}] = lease
	}
	s.Inspect(e)
}

func (im *image) space(table *space.Table, id ledger.SpaceID) *space.Space {
	s, ok := im.spaces[id]
	if !ok {
		s = space.NewDraft(table, id)
		im.spaces[id] = s
	}
	return s
}

// install brings memory up to an image. Spaces that have moved on are left as
// they are: the watch goes on from the image's revision.
func (f follower) install(im *image) {
	f.compareRevision(f.Watched.Get(), im.revision)
	for id, fresh := range im.spaces {
		fresh.Known = im.revision
		s := f.Enter(id)
		if s.Head.Revision <= im.revision && fresh.Head.Precedes(s.Head) { // our own commits may be newer
			f.replaced(fmt.Sprintf("space %s has seen %d changes, and the ledger has %d", id, s.Head.Count, fresh.Head.Count))
		}
		if s.Stale || s.Known < max(fresh.Head.Revision, 1) {
			s.ReplaceBy(fresh)
		}
		s.Unlock()
	}
	for _, s := range f.others(im) {
		s.Lock()
		if s.Head.Revision > 0 && s.Known <= im.revision {
			s.Close()
			f.drop(s)
		}
		s.Unlock()
	}
	for c, revision := range im.fences {
		f.Table.Fenced(c, revision)
	}
	for to, revision := range im.quotas {
		f.Table.Quotas.Fenced(to, revision)
	}
	f.Table.Reservations.Reset(im.reserved)
	f.Table.Leases.Reset(im.leases)
	f.Table.SetDamage(im.damage)
	f.Watched.advance(im.revision)
}

// others returns the spaces that are not in an image.
func (f follower) others(im *image) []*Worker {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var others []*Worker
	for id, s := range f.spaces {
		if im.spaces[id] == nil {
			others = append(others, s)
		}
	}
	return others
}
