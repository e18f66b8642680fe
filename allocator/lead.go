package allocator

import (
	"context"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// The waiting list is in the memory of one Allocator, the leader. Other Allocators that
// reserve must not take room that a claim on that list could use. So the leader marks a
// space in the ledger when a claim begins to wait there. The mark is put by the next
// transaction on the space, which puts the head, too: a reservation of another Allocator
// that does not know of it conflicts. Blocks are freed by the leader, so whatever is freed
// for a waiter is freed behind the mark.

// retryMark is the pause before a mark is written again that etcd did not take.
const retryMark = time.Second

// leadership says what an Allocator's waiting lists are good for.
type leadership int32

const (
	following leadership = iota
	// leading: its lists count, but do not have everybody yet who waited at a former leader.
	leading
	// settled: its lists are complete.
	settled
)

// lead makes the waiting lists of this process count, until ctx ends. They are complete when
// the channel is closed.
func (eng *engine) lead(ctx context.Context, complete <-chan struct{}) {
	defer eng.leads.Store(int32(following))
	eng.leadAs(leading)
	select {
	case <-complete:
		eng.leadAs(settled)
	case <-ctx.Done():
		return
	}
	<-ctx.Done()
}

// leadAs has all spaces marked as that leadership wants it.
func (eng *engine) leadAs(l leadership) {
	eng.leads.Store(int32(l))
	for _, s := range eng.workers() {
		s.Lock()
		s.Unlock() // which sees to the mark
	}
}

// remark sees to it that a worker brings the mark up to date.
func (s *worker) remark() {
	if !s.working && s.mismarked() {
		s.working = s.engine.spawn(s.work)
	}
}

// mismarked reports whether the mark has to be written.
func (s *worker) mismarked() bool {
	if s.Gone || s.resting || s.Head.Revision == 0 || s.wanted() == s.Marked {
		return false
	}
	return s.engine.ctx.Err() == nil && s.engine.err() == nil && s.Damage.Err() == nil
}

// wanted is what the mark should be.
func (s *worker) wanted() string {
	switch leadership(s.engine.leads.Load()) {
	case following:
		return s.Marked
	case leading:
		if s.Marked != "" {
			return s.Marked
		}
	case settled:
	}
	for _, p := range s.Pools {
		// Those who are parked cannot use room.
		if len(p.Waiting.Claims) > p.Waiting.Suspended {
			return s.Table.Writer
		}
	}
	return ""
}

// markOp is the op that writes the mark. It goes ahead of what is queued.
type markOp struct{ writer string }

// newMarkOp makes the op, if there is something to write; else nil.
func (s *worker) newMarkOp() *markOp {
	if !s.mismarked() {
		return nil
	}
	return &markOp{writer: s.wanted()}
}

func (m *markOp) cluster() ClusterName { return "" }

// claim is that of nobody: the mark shares its transaction with others.
func (m *markOp) claim() (ClaimID, bool) { return "", true }

func (m *markOp) place(s *worker) (share, error) { return m.share(s), nil }

func (m *markOp) share(s *worker) share {
	key := s.engine.keys.Waiters(s.ID)
	if m.writer == "" {
		return share{then: store.Ops(store.Remove(key))}
	}
	return share{then: store.Ops(store.Put(key, store.EncodeWriter(m.writer)))}
}

func (m *markOp) won(s *worker, revision int64, _ store.Results) error {
	if revision > s.Known {
		s.Marked = m.writer
	}
	return nil
}

// lost gives the op up: the next group has another, if it is needed then.
func (m *markOp) lost(s *worker, why loss) error {
	if why.kind == unanswered {
		s.resting = true
		s.engine.hooks.after(retryMark, func() {
			s.Lock()
			defer s.Unlock()
			s.resting = false
		})
	}
	return errMoved
}
