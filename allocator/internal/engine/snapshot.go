package engine

import (
	"context"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// load reads the ledger into memory. No other process changes the ledger meanwhile. The spaces stay locked until all is
// read, because notifications about a space that is half read would be wrong: a draining pool would seem to have no
// blocks.
func (eng *Engine) load(ctx context.Context) error {
	read := map[ledger.SpaceID]*Space{}
	revision, err := eng.store.Snapshot(ctx, func(e *store.Entry) {
		switch {
		case e.Kind == store.PoolKey && e.Damage != nil:
			eng.Table.Note(e)
		case e.Kind == store.PoolKey, e.Kind == store.BlockKey, e.Kind == store.HeadKey:
			s, ok := read[e.Space]
			if !ok {
				s = eng.Spaces.Enter(e.Space)
				read[e.Space] = s
			}
			s.ReadKey(e)
		}
	})
	if err != nil {
		return err
	}
	eng.Table.Loaded = true
	eng.Revision.Store(revision)
	told := make(map[*Space]space.News, len(read))
	for _, s := range read {
		told[s] = s.Release()
	}
	for s, news := range told { // the receiver may ask for any space
		s.Unlocked(news)
	}
	return nil
}
