package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// image is the ledger at one revision, as spaces that are not published yet.
type image struct {
	revision int64
	spaces   map[ledger.SpaceID]*space.Space
	fences   map[ledger.ClusterName]int64
	quotas   map[space.Account]int64
	damage   space.Damage // of the records of pools
}

// load reads the ledger, and brings memory in line with it.
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
	im := &image{spaces: map[ledger.SpaceID]*space.Space{}, fences: map[ledger.ClusterName]int64{}, quotas: map[space.Account]int64{}, damage: space.Damage{}}
	revision, err := f.store.Snapshot(ctx, func(e *store.Entry) { f.image(im, e) })
	im.revision = revision
	return im, err
}

// image adds one key to an image.
func (f follower) image(im *image, e *store.Entry) {
	switch e.Kind {
	case store.PoolKey:
		if e.Damage != nil {
			im.damage[e.Text] = e.Damage
			return
		}
		im.apply(f.Table, e)
	case store.RootsKey:
		im.fences[e.Cluster] = e.Revision
	case store.QuotaKey:
		im.quotas[space.Account{Class: e.Class, Cluster: e.Cluster}] = e.Revision
	case store.BlockKey, store.HeadKey:
		im.apply(f.Table, e)
	case store.OtherKey:
	}
}

// apply adds a key of a space.
func (im *image) apply(table *space.Table, e *store.Entry) {
	s, ok := im.spaces[e.Space]
	if !ok {
		s = space.NewReading(table, e.Space)
		im.spaces[e.Space] = s
	}
	s.ReadKey(e)
}

// doubts reports whether memory of a space is stale, or a key of it cannot be read or is missing. By hand such a key is put, and mended,
// without the head, so that the head does not show whether memory is up to date: not even that of a change that is newer than the image.
func (im *image) doubts(s *Worker, fresh *space.Space) bool {
	return s.Stale || len(s.Damage)+len(fresh.Damage) > 0 || misses(s, fresh) ||
		s.Known <= im.revision && len(s.Room.Pools) != len(fresh.Room.Pools)
}

// misses reports whether a fresh reading of a space has a pool that memory lacks, and not because it was retired since.
func misses(s *Worker, fresh *space.Space) bool {
	return slices.ContainsFunc(fresh.Room.Pools, func(p *space.Pool) bool { return s.Pool(p.ID) == nil && !s.Table.Retired.Has(p.ID) })
}

// renew brings memory of a space in line with a fresh reading of it.
func (im *image) renew(s *Worker, fresh *space.Space) {
	s.Stale = im.doubts(s, fresh)
	if s.Stale && s.Known <= im.revision || s.Known < max(fresh.Head.Revision, 1) {
		s.ReplaceBy(fresh)
	}
	if s.Stale { // memory may lack a root pool, which others may overlap, until the next reading
		im.damage[string(s.ID)] = errStale
	}
}

// nothing returns the reading of a space that the image does not have.
func (im *image) nothing(s *space.Space) *space.Space {
	fresh := space.NewReading(s.Table, s.ID)
	fresh.Known = im.revision
	return fresh
}

// install brings memory in line with an image. A space that has newer changes stays as
// it is: the watch goes on from the image's revision. A stale one that has newer changes stays stale.
func (f follower) install(im *image) {
	f.Health.compare(f.Watched.Get(), im.revision)
	f.closeAbsent(im) // first, as a pool whose address spaces are gone does not count them
	for id, fresh := range im.spaces {
		fresh.Known = im.revision
		s := f.Spaces.Enter(id)
		if s.Head.Revision <= im.revision && fresh.Head.Precedes(s.Head) { // our own commits may be newer
			f.Health.replaced(fmt.Sprintf("space %s has seen %d changes, and the ledger has %d", id, s.Head.Count, fresh.Head.Count))
		}
		im.renew(s, fresh)
		s.Unlock()
	}
	for c, revision := range im.fences {
		f.Table.Fenced(c, revision)
	}
	for c := range f.Table.Rootless() {
		if _, ok := im.fences[c]; !ok {
			f.Table.Unfenced(c, im.revision)
		}
	}
	for to, revision := range im.quotas {
		f.Table.Quotas.Fenced(to, revision)
	}
	f.Table.Quotas.KeepFences(im.quotas, im.revision)
	f.Table.SetDamage(im.damage)
	f.Watched.advance(im.revision)
	f.closeAbsent(im) // a late answer may have brought one back, until it could see how far memory is
}

// closeAbsent closes the spaces that an image does not have, unless they have newer changes.
func (f follower) closeAbsent(im *image) {
	for _, s := range f.Spaces.All() {
		if im.spaces[s.ID] != nil {
			continue
		}
		s.Lock()
		switch {
		case s.Known > im.revision:
		case s.Gone: // its end will not come any more
			f.Spaces.drop(s)
		case s.Head.Revision > 0 || s.Stale:
			s.Close()
			f.Spaces.drop(s)
		case s.Known < im.revision: // its first pool may have been registered and retired before the reading, and the answer come later
			s.ReplaceBy(im.nothing(s.Space))
		}
		s.Unlock()
	}
}
