package sweep

import (
	"context"
	"maps"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// glance looks at the blocks that have changed since the last glance, and at those that were too young
// then. Its cost does not depend on the size of the ledger. It may miss blocks, which the round finds. It
// does not decide about orphans, because it does not know how many there are. If it sees one, that counts
// as the sighting of the current round: the next round needs only one more.
func (s *Sweeper) glance(ctx context.Context) {
	maps.Copy(s.recent, s.Ledger.Blocks.ChangedBlocks())
	for at, blocks := range s.recent {
		if !slices.ContainsFunc(blocks, s.young) {
			delete(s.recent, at)
		}
		for _, b := range blocks {
			s.glanceAt(ctx, b)
		}
	}
}

func (s *Sweeper) glanceAt(ctx context.Context, b ledger.Block) {
	switch {
	case b.State == ledger.Cooling || s.young(b):
	case promise.Is(b.Holder.Claim):
		s.Releases.Suspect(b.Holder)
	case s.judge(ctx, b):
		s.round.sees(b)
	}
}
