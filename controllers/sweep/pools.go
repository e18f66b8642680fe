package sweep

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// adopting is how long pools without an IPPool are left alone at most because the ledger has lost changes to pools of
// other workspaces.
const adopting = time.Hour

// rootHolder names the IPPool of a root pool the way the holder of a block is named.
func rootHolder(p ledger.Pool) ledger.Holder {
	return ledger.Holder{Claim: ledger.ClaimID(p.ID), Cluster: p.Cluster, Name: p.Name}
}

// lookAtPools finds the root pools whose IPPool two passes in a row did not see. A child pool is
// found by its block. A pool that holds something is left alone until it does not: its blocks
// have a brake of their own, and nothing is allocated from it without its IPPool. So there is no
// brake for pools. A pool that was retired and comes back, as in a kcp that was restored from a
// backup, has lost nothing.
//
// A ledger that was restored from an older copy lacks blocks, and shows pools as empty that are
// not. So those of a workspace stay while one of its pools has lost changes, or was not compared with the ledger
// yet; and while one of any workspace has lost changes, the others stay as long as an adoption may take. They do not
// wait for ever: any tenant may have a pool that nobody can make whole.
func (s *Sweeper) lookAtPools(ctx context.Context) {
	before, lost := s.gone, false
	s.gone = map[ledger.PoolID]time.Time{}
	suspects, unseen := []ledger.Pool(nil), map[ledger.ClusterName]bool{}
	for p := range s.Ledger.Pools.All() {
		if p.Derived != nil && !p.Frozen || ledger.IsAddressSpace(p.ID) {
			continue // it lives by the ledger, and not by its IPPool
		}
		state := s.World.State(ctx, ledger.Block{Holder: rootHolder(p)})
		switch {
		case state == Held && (p.Frozen || s.Ledger.Recovery.Frozen(p.ID)):
			unseen[p.Cluster], lost = true, lost || p.Frozen
		case state != Held && s.suspicious(p, state, before[p.ID]):
			suspects = append(suspects, p)
		}
	}
	for _, p := range suspects {
		since, missed := s.gone[p.ID]
		if !unseen[p.Cluster] && (!lost || !missed || s.Clock.Since(since) >= adopting) {
			s.Releases.Suspect(rootHolder(p))
		}
	}
}

// suspicious reports whether a pool without an IPPool is to be released, and remembers for the
// next pass since when it has none; before is zero if the last pass saw it.
func (s *Sweeper) suspicious(p ledger.Pool, state State, before time.Time) bool {
	if p.Parent != "" || p.State != ledger.PoolOpen || s.Clock.Since(p.RegisteredAt) < s.MinAge {
		return false
	}
	if state == Away && s.Releases.HasDeparted(p.Cluster) {
		return true
	}
	if !s.empty(p.ID) {
		return false
	}
	s.gone[p.ID] = before
	if before.IsZero() {
		s.gone[p.ID] = s.Clock.Now()
	}
	return !before.IsZero()
}

// empty reports whether nobody holds anything of a pool.
func (s *Sweeper) empty(id ledger.PoolID) bool {
	c, ok := s.Ledger.Pools.Capacity(id)
	return ok && c.Blocks == 0
}

// rangeOf returns the hold of a range as if it were that of a block; ok is false if nobody holds the pool.
func rangeOf(p ledger.Pool) (b ledger.Block, ok bool) {
	if p.Derived == nil || p.Derived.Holder.Claim == "" {
		return ledger.Block{}, false
	}
	return ledger.Block{
		Pool: p.Parent, Holder: p.Derived.Holder, State: ledger.Bound, BoundAt: p.Derived.HeldSince,
		Revision: p.Derived.HeldSince.UnixMilli(),
	}, true
}
