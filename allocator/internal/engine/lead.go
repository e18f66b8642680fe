package engine

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// The waiting list is in the memory of one Allocator, the leader. Other Allocators must not
// reserve room that a claim on that list could use. So the leader marks a space in the ledger
// when a claim begins to wait there. The next transaction on the space puts the mark and the
// head: a reservation of an Allocator that has not seen the mark conflicts. The leader frees
// blocks, too, so that it has put the mark before it frees a block for a waiter.

// RetryMark is the pause before the next attempt to put a mark that etcd did not take, or that another writer
// has replaced: that one may lead, too, and would replace it again.
const RetryMark = time.Second

// Leadership says whether an Allocator's waiting lists count.
type Leadership int32

const (
	// Following: another replica leads, or none does. Its lists do not count.
	Following Leadership = iota
	// leading: its lists count, but may lack claims that waited at a former leader.
	leading
	// Complete: its lists are complete.
	Complete
)

// Lead makes the waiting lists of this process count, until ctx ends. They are complete when
// the channel is closed.
func (eng *Engine) Lead(ctx context.Context, complete <-chan struct{}) {
	defer eng.Leads.Store(int32(Following))
	eng.LeadAs(leading)
	select {
	case <-complete:
		eng.LeadAs(Complete)
	case <-ctx.Done():
		return
	}
	<-ctx.Done()
}

// LeadAs changes the leadership, and brings the marks of all spaces in line with it.
func (eng *Engine) LeadAs(l Leadership) {
	eng.Leads.Store(int32(l))
	for _, s := range eng.Spaces.All() {
		s.Lock()
		s.updateMark()
		s.Unlock()
	}
}

func (eng *Engine) leadership() Leadership { return Leadership(eng.Leads.Load()) }

// updateMark starts a worker if the mark has to be written.
func (s *Worker) updateMark() {
	if !s.Working && s.markDiffers() {
		s.Working = s.Engine.Spawn(s.work)
	}
}

// markDiffers reports whether the mark has to be written.
func (s *Worker) markDiffers() bool {
	if s.Resting || s.Head.Revision == 0 || s.Engine.leadership().mark(s.Space) == s.Marked {
		return false
	}
	return s.Unfit() == nil
}

// mark is what the mark of a space should be.
func (l Leadership) mark(s *space.Space) string {
	switch l {
	case Following:
		return s.Marked
	case leading:
		if s.Marked != "" {
			return s.Marked
		}
	case Complete:
	}
	for _, p := range s.Room.Pools {
		// Suspended claims cannot use room.
		if len(p.Waiting.Claims) > p.Waiting.Suspended {
			return s.Table.Writer
		}
	}
	return ""
}

// markOp is the op that writes the mark. It goes ahead of what is queued.
type markOp struct{ writer string }

func (m *markOp) Cluster() ledger.ClusterName { return "" }

// Claim is empty: the mark writes no claim's keys, and shares its transaction with other ops.
func (m *markOp) Claim() (ledger.ClaimID, bool) { return "", true }

func (m *markOp) Plan(s *Worker) (Share, error) { return m.share(s), nil }

func (m *markOp) share(s *Worker) Share {
	key := s.Keys.Waiters()
	if m.writer == "" {
		return Share{Then: store.Ops(store.Remove(key))}
	}
	return Share{Then: store.Ops(store.Put(key, store.EncodeWriter(m.writer)))}
}

// Won notes the mark.
func (m *markOp) Won(s *Worker, revision int64, _ store.Results) error {
	if revision > s.Known {
		s.Marked = m.writer
	}
	return nil
}

// Lost drops the op. The next group has another one, if the mark still has to be written.
func (m *markOp) Lost(s *Worker, why Loss) error {
	if why.Kind == Unanswered {
		s.rest()
	}
	return ErrStale
}

// rest puts off the next mark. The lock of the space is held.
func (s *Worker) rest() {
	if s.Resting {
		return
	}
	s.Resting = true
	s.Engine.Hooks.After(RetryMark, func() {
		s.Lock()
		defer s.Unlock()
		s.Resting = false
	})
}
