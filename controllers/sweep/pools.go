package sweep

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// adopting limits how long a pool without an IPPool is left alone because the ledger has lost changes to pools of other
// workspaces.
const adopting = time.Hour

// rootHolder returns the IPPool of a root pool as a holder, in the form in which the ledger names the holder of a
// block.
func rootHolder(p ledger.Pool) ledger.Holder {
	return ledger.Holder{Claim: ledger.ClaimID(p.ID), Cluster: p.Cluster, Name: p.Name}
}

// lookAtPools hints at the root pools whose IPPool two rounds in a row did not see. A child pool is found by its block.
// A pool is left alone while it has blocks: these have a brake of their own, and nothing is allocated from the pool
// without its IPPool. So there is no brake for pools. If a pool was retired, and its IPPool comes back in a kcp that
// was restored from a backup, nothing is lost.
//
// A ledger that was restored from an older copy lacks blocks, and shows pools as empty that are not. So the pools of a
// workspace stay while one of its pools has lost changes, or was not compared with the ledger yet. While a pool of any
// workspace has lost changes, the pools of other workspaces stay, too, but only for the time adopting: a tenant may
// have a pool that nobody can make whole.
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

// suspicious reports whether a pool without an IPPool is to be released, and notes for the next round since when the
// pool has none. before is the time that the last round noted; zero: it noted none.
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

// empty reports whether a pool has no blocks.
func (s *Sweeper) empty(id ledger.PoolID) bool {
	c, ok := s.Ledger.Pools.Capacity(id)
	return ok && c.Blocks == 0
}

// rangeOf returns a range as a block of its parent, which the range's claim holds. ok is false if no claim holds the
// pool.
func rangeOf(p ledger.Pool) (b ledger.Block, ok bool) {
	if p.Derived == nil || p.Derived.Holder.Claim == "" {
		return ledger.Block{}, false
	}
	return ledger.Block{
		Pool: p.Parent, Holder: p.Derived.Holder, State: ledger.Bound, BoundAt: p.Derived.HeldSince,
		Revision: p.Derived.HeldSince.UnixMilli(),
	}, true
}
