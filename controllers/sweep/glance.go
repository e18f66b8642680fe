package sweep

import (
	"context"
	"maps"
	"slices"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/controllers/internal/reservation"
)

// glance looks at the blocks that have changed since the glance before, and at those that were too
// young then: what it costs does not depend on how large the ledger is. It may miss some, which the
// round finds. It decides about no orphan, since it does not know how many others there are: that it
// has seen one is the first of the two sightings that a round needs, the round after this one.
func (s *Sweeper) glance(ctx context.Context) {
	maps.Copy(s.recent, s.Ledger.ChangedBlocks())
	for at, blocks := range s.recent {
		if !slices.ContainsFunc(blocks, s.young) {
			delete(s.recent, at)
		}
		for _, b := range blocks {
			s.glanceAt(ctx, b)
		}
	}
}

func (s *Sweeper) glanceAt(ctx context.Context, b allocator.Block) {
	switch {
	case b.State == allocator.Cooling || s.young(b):
	case reservation.Is(b.Holder.Claim):
		s.Releases.Suspect(b.Holder)
	case s.judge(ctx, b):
		s.round.sees(b)
	}
}
