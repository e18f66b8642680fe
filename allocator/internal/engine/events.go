package engine

import (
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// apply brings committed changes into memory, space by space.
func (eng *Engine) apply(entries []*store.Entry) {
	of := map[ledger.SpaceID][]*store.Entry{}
	for _, e := range entries {
		of[e.Space] = append(of[e.Space], e)
	}
	for _, id := range inTurn(of, func(id ledger.SpaceID) bool { _, known := eng.Spaces.find(id); return known }) {
		eng.bring(id, of[id])
	}
}

// inTurn orders the spaces of a commit. A space that begins comes first, because a plan that compares the new head of
// the pool above it has to know the space. Then comes a space that ends, and last the pool above it. That pool takes
// over the number of the changes of the space, so that nobody counts these changes twice.
func inTurn(of map[ledger.SpaceID][]*store.Entry, known func(ledger.SpaceID) bool) []ledger.SpaceID {
	var begin, end, rest []ledger.SpaceID
	for id, entries := range of {
		switch {
		case !known(id):
			begin = append(begin, id)
		case slices.ContainsFunc(entries, func(e *store.Entry) bool { return e.Kind == store.HeadKey && !e.Put }):
			end = append(end, id)
		default:
			rest = append(rest, id)
		}
	}
	return slices.Concat(begin, end, rest)
}

func (eng *Engine) bring(id ledger.SpaceID, entries []*store.Entry) {
	s := eng.Spaces.Enter(id)
	s.Apply(entries)
	if s.Gone {
		eng.Spaces.drop(s)
	}
	s.Unlock()
	for _, e := range entries {
		if e.Kind == store.PoolKey && e.Put {
			eng.lead(*e.Registered)
		}
	}
	if of, is := ledger.AddressSpaceOf(ledger.PoolID(id)); is {
		eng.Table.Visit(of, func(p *space.Pool) {
			if p.State == ledger.PoolDraining {
				p.In.News.Touch(of) // the pool may be empty now
			}
		})
	}
}

// lead updates the address spaces of a pool after the pool has changed. All of it is in memory.
func (eng *Engine) lead(of ledger.Pool) {
	for _, id := range eng.Table.Parts(of.ID) {
		if s, ok := eng.Spaces.find(ledger.SpaceID(id)); ok {
			s.Lock()
			s.Follow(of)
			s.Unlock()
		}
	}
}
