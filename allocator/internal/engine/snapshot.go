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
func (eng *Engine) load(ctx context.Context) error {
	im, err := eng.Snapshot(ctx)
	if err != nil {
		return err
	}
	eng.install(im)
	return nil
}

// Snapshot reads the ledger as of one revision.
func (eng *Engine) Snapshot(ctx context.Context) (*image, error) {
	im := &image{spaces: map[ledger.SpaceID]*space.Space{}, fences: map[ledger.ClusterName]int64{}, quotas: map[space.Account]int64{}, reserved: space.Reserved{}, leases: map[space.Position]ledger.Lease{}, damage: space.Damage{}}
	revision, err := eng.store.Snapshot(ctx, func(e store.Entry) { eng.image(im, e) })
	im.revision = revision
	return im, err
}

// image adds one key to an image.
func (eng *Engine) image(im *image, e store.Entry) {
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
func (im *image) block(eng *Engine, e store.Entry) {
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

func (im *image) space(eng *Engine, id ledger.SpaceID) *space.Space {
	s, ok := im.spaces[id]
	if !ok {
		s = space.NewDraft(eng.Table, id)
		im.spaces[id] = s
	}
	return s
}

// install brings memory up to an image. Spaces that have moved on are left as
// they are: the watch goes on from the image's revision.
func (eng *Engine) install(im *image) {
	eng.compareRevision(eng.Watched.Get(), im.revision)
	for id, fresh := range im.spaces {
		fresh.Known = im.revision
		s := eng.Enter(id)
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
		eng.Table.Fenced(c, revision)
	}
	for to, revision := range im.quotas {
		eng.Table.Quotas.Fenced(to, revision)
	}
	eng.Table.Reservations.Reset(im.reserved)
	eng.Table.Leases.Reset(im.leases)
	eng.Table.SetDamage(im.damage)
	eng.Watched.advance(im.revision)
}

// others returns the spaces that are not in an image.
func (eng *Engine) others(im *image) []*Worker {
	eng.mu.RLock()
	defer eng.mu.RUnlock()
	var others []*Worker
	for id, s := range eng.spaces {
		if im.spaces[id] == nil {
			others = append(others, s)
		}
	}
	return others
}
