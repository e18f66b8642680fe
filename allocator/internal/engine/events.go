package engine

import (
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// apply brings what was committed at a revision into memory, space by space. A space that begins comes first: a pool above it counts it, and is
// asked for more by that. One that ends comes before the pool above it, which takes over the number of its changes: nobody counts them twice.
func (eng *Engine) apply(revision int64, entries []*store.Entry) {
	of := map[ledger.SpaceID][]*store.Entry{}
	for _, e := range entries {
		of[e.Space] = append(of[e.Space], e)
	}
	begins := func(id ledger.SpaceID) bool { _, known := eng.Spaces.find(id); return !known }
	ends := func(id ledger.SpaceID) bool {
		return slices.ContainsFunc(of[id], func(e *store.Entry) bool { return e.Kind == store.HeadKey && !e.Put })
	}
	rest := func(ledger.SpaceID) bool { return true }
	for _, turn := range []func(ledger.SpaceID) bool{begins, ends, rest} {
		for id, entries := range of {
			if turn(id) {
				delete(of, id)
				eng.bring(id, revision, entries)
			}
		}
	}
}

func (eng *Engine) bring(id ledger.SpaceID, revision int64, entries []*store.Entry) {
	s := eng.Spaces.Enter(id)
	defer s.Unlock()
	s.Apply(entries, revision)
	if s.Gone {
		eng.Spaces.drop(s)
	}
}
