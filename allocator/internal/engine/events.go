package engine

import (
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// apply brings what was committed into memory, space by space. A space that begins comes first: the pool above it is
// asked for more by that. One that ends comes before the pool above it, which takes over the number of its changes:
// nobody counts them twice.
func (eng *Engine) apply(entries []*store.Entry) {
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
				eng.bring(id, entries)
			}
		}
	}
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
				p.In.News.Touch(of) // it may be empty now
			}
		})
	}
}

// lead brings the address spaces of a pool in line with it. All of it is in memory.
func (eng *Engine) lead(of ledger.Pool) {
	for _, id := range eng.Table.Parts(of.ID) {
		if s, ok := eng.Spaces.find(ledger.SpaceID(id)); ok {
			s.Lock()
			s.Follow(of)
			s.Unlock()
		}
	}
}
