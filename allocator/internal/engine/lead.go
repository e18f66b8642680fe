package engine

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// leadEvery is how often a leader looks whether the ledger names it, and the pause before it puts its address again. Of
// two that lead for a moment, the one that has gone does not stay.
const leadEvery = time.Second

// Lead takes the office of the ledger's writer, and keeps the address of this process in the ledger as the
// leader's, until ctx ends.
func (eng *Engine) Lead(ctx context.Context, at string) {
	if !eng.takeOffice(ctx) {
		return
	}
	eng.SetLeads(true)
	defer eng.SetLeads(false)
	look := time.NewTicker(leadEvery)
	defer look.Stop()
	for {
		if eng.Leader() != at {
			eng.announce(ctx, at)
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		case <-eng.Ctx.Done():
			return
		}
	}
}

// takeOffice takes the office, and reports whether it has. It tries until ctx ends, or somebody else has taken the office.
func (eng *Engine) takeOffice(ctx context.Context) (ok bool) {
	for candidacy := eng.store.Candidate(eng.writer); ; {
		err := candidacy.Take(ctx)
		if err == nil {
			return true
		}
		if eng.Health.Err() != nil || ctx.Err() != nil || eng.Ctx.Err() != nil {
			return false
		}
		eng.logger.Warn("the office of the ledger's writer is not taken yet", "error", err)
		eng.rest(leadEvery)
	}
}

// announce puts the address of the leader. If etcd does not take it, the next look puts it.
func (eng *Engine) announce(ctx context.Context, at string) {
	_, err := eng.store.Commit(ctx, nil, store.Ops(store.Put(eng.Keys.Leader(), store.EncodeLeader(at))), nil)
	if err != nil && ctx.Err() == nil {
		eng.logger.Warn("the ledger does not name this leader yet", "error", err)
	}
}

// Leader is where the leader answers, by the ledger; empty: it has not said. It may have gone.
func (eng *Engine) Leader() string {
	if at := eng.leader.Load(); at != nil {
		return *at
	}
	return ""
}

// SetLeads says whether this process leads, and brings the timers of all spaces in line with it.
func (eng *Engine) SetLeads(leads bool) {
	eng.leads.Store(leads)
	for _, s := range eng.Spaces.All() {
		s.Lock()
		s.Unlock() //nolint:staticcheck // which sets the timer
	}
}
