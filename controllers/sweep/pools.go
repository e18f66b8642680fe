package sweep

import (
	"context"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

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
// not. So all pools stay while one that is there has lost changes, and those of a workspace
// while one of its pools was not compared with the ledger yet.
func (s *Sweeper) lookAtPools(ctx context.Context) {
	before := s.gone
	s.gone = map[ledger.PoolID]bool{}
	suspects, unseen := []ledger.Holder(nil), map[ledger.ClusterName]bool{}
	for p := range s.Ledger.Pools.All() {
		if p.Derived != nil && !p.Frozen || ledger.IsAddressSpace(p.ID) {
			continue // it lives by the ledger, and not by its IPPool
		}
		state := s.World.State(ctx, ledger.Block{Holder: rootHolder(p)})
		switch {
		case state == Held && p.Frozen:
			s.gone = nil
			return
		case state == Held && s.Ledger.Recovery.Frozen(p.ID):
			unseen[p.Cluster] = true
		case state != Held && s.suspicious(p, state, before[p.ID]):
			suspects = append(suspects, rootHolder(p))
		}
	}
	for _, h := range suspects {
		if !unseen[h.Cluster] {
			s.Releases.Suspect(h)
		}
	}
}

// suspicious reports whether a pool without an IPPool is to be released, and remembers it for the
// next pass.
func (s *Sweeper) suspicious(p ledger.Pool, state State, before bool) bool {
	if p.Parent != "" || p.State != ledger.PoolOpen || s.Clock.Since(p.RegisteredAt) < s.MinAge {
		return false
	}
	if state == Away && s.Releases.HasDeparted(p.Cluster) {
		return true
	}
	if !s.empty(p.ID) {
		return false
	}
	s.gone[p.ID] = true
	return before
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
		Pool: p.Parent, Holder: p.Derived.Holder, State: ledger.Bound, BoundAt: p.Derived.HeldSince, Revision: p.Derived.HeldSince.UnixMilli(),
	}, true
}
