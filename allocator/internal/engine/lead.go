package engine

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// The waiting list is in the memory of one Allocator, the leader. Other Allocators that
// reserve must not take room that a claim on that list could use. So the leader marks a
// space in the ledger when a claim begins to wait there. The mark is put by the next
// transaction on the space, which puts the head, too: a reservation of another Allocator
// that does not know of it conflicts. Blocks are freed by the leader, so whatever is freed
// for a waiter is freed behind the mark.

// RetryMark is the pause before a mark is written again that etcd did not take.
const RetryMark = time.Second

// Leadership says what an Allocator's waiting lists are good for.
type Leadership int32

const (
	// Following: another replica leads, or none does. Its lists do not count.
	Following Leadership = iota
	// leading: its lists count, but do not have everybody yet who waited at a former leader.
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

// LeadAs has all spaces marked as that leadership wants it.
func (eng *Engine) LeadAs(l Leadership) {
	eng.Leads.Store(int32(l))
	for _, s := range eng.Spaces.All() {
		s.Lock()
		s.updateMark()
		s.Unlock()
	}
}

func (eng *Engine) leadership() Leadership { return Leadership(eng.Leads.Load()) }

// updateMark sees to it that a worker brings the mark up to date.
func (s *Worker) updateMark() {
	if !s.Working && s.markDiffers() {
		s.Working = s.Engine.Spawn(s.work)
	}
}

// markDiffers reports whether the mark has to be written.
func (s *Worker) markDiffers() bool {
	if s.Gone || s.Resting || s.Head.Revision == 0 || s.Engine.leadership().mark(s.Space) == s.Marked {
		return false
	}
	return s.Engine.Ctx.Err() == nil && s.Engine.Health.Err() == nil && s.Damage.Err() == nil
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
		// Those who are suspended cannot use room.
		if len(p.Waiting.Claims) > p.Waiting.Suspended {
			return s.Table.Writer
		}
	}
	return ""
}

// markOp is the op that writes the mark. It goes ahead of what is queued.
type markOp struct{ writer string }

func (m *markOp) Cluster() ledger.ClusterName { return "" }

// Claim is that of nobody: the mark shares its transaction with others.
func (m *markOp) Claim() (ledger.ClaimID, bool) { return "", true }

func (m *markOp) Plan(s *Worker) (Share, error) { return m.share(s), nil }

func (m *markOp) share(s *Worker) Share {
	key := s.Keys.Waiters()
	if m.writer == "" {
		return Share{Then: store.Ops(store.Remove(key))}
	}
	return Share{Then: store.Ops(store.Put(key, store.EncodeWriter(m.writer)))}
}

// Won notes the mark that is in the ledger now.
func (m *markOp) Won(s *Worker, revision int64, _ store.Results) error {
	if revision > s.Known {
		s.Marked = m.writer
	}
	return nil
}

// Lost gives the op up: the next group has another, if it is needed then.
func (m *markOp) Lost(s *Worker, why Loss) error {
	if why.Kind == Unanswered {
		s.Resting = true
		s.Engine.Hooks.After(RetryMark, func() {
			s.Lock()
			defer s.Unlock()
			s.Resting = false
		})
	}
	return ErrStale
}
