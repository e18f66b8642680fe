package engine

import (
	"context"
	"errors"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// pending are the calls of a transaction that were not committed, or may not have been. The worker
// goes on when the outcome is certain, and the indexes are up to date with it.
type pending struct {
	losers []loser
	fence  *Fence // to be put, if the outcome is unknown
	answer error  // for the callers; nil: they are planned again
	need   int64  // revision that the watch has to reach
	moved  bool   // the fence had moved: the transaction may have been committed
}

// loser is a call whose share was not committed, or may not have been.
type loser struct {
	*call
	why Loss
}

// lose leaves a group pending. All its calls have lost, for the same reason.
func (s *Worker) lose(g *group, why Loss) {
	s.pending = &pending{losers: make([]loser, len(g.calls))}
	for i, c := range g.calls {
		s.pending.losers[i] = loser{c, why}
	}
}

// sawRevisions notes the revisions of keys that etcd has returned: the watch has to reach them before
// the losers are planned again.
func (p *pending) sawRevisions(got store.Results) {
	for i := range got {
		if kv := got.Found(i); kv != nil {
			p.need = max(p.need, kv.ModRevision)
		}
	}
}

// closeAt marks the space as retired if memory has its head at this revision. 0: there was no head,
// and nothing happens.
func (s *Worker) closeAt(revision int64) {
	s.Lock()
	defer s.Unlock()
	if revision > 0 && s.Head.Revision == revision {
		s.Close()
	}
}

// fence is the key that has to be put so that a group's transaction can no longer succeed.
func (g *group) fence(keys store.SpaceKeys) *Fence {
	if g.at.Revision == 0 {
		return g.shares[0].Fence
	}
	key := keys.Head()
	return &Fence{Key: key, Revision: g.at.Revision, Same: g.at.Same(key), Value: store.EncodeHead(g.at.Count + g.stride)}
}

// settle waits until the outcome of the pending transaction is certain, and the
// indexes are up to date with it. It then answers the calls, or queues them again.
func (s *Worker) settle() error {
	p := s.pending
	if p == nil {
		return nil
	}
	if p.fence != nil {
		gone, err := p.putFence(s.Engine)
		if err != nil {
			return err
		}
		if gone {
			s.closeAt(p.fence.Revision)
		}
		p.fence = nil
	}
	if err := s.Engine.Await(s.Engine.Ctx, p.need); err != nil {
		return err
	}
	s.Lock()
	defer s.Unlock()
	s.pending = nil
	s.Queue.unpop(p.undo(s))
	return nil
}

// putFence puts the fence of a transaction whose outcome is unknown. A read would
// not be enough: the transaction may still be on its way to etcd. If etcd has refused
// it, a read is enough. putFence reports whether the fence is gone.
func (p *pending) putFence(eng *Engine) (gone bool, err error) {
	ctx, cancel := context.WithTimeout(eng.Ctx, eng.store.Timeout)
	defer cancel()
	f := p.fence
	txn := eng.store.Client.Txn(ctx).If(f.Same...).Then(store.Put(f.Key, f.Value)).Else(store.Get(f.Key))
	if p.answer != nil {
		txn = eng.store.Client.Txn(ctx).Then(store.Get(f.Key))
	}
	resp, err := txn.Commit()
	if err != nil {
		return false, eng.store.Unavailable(err)
	}
	if p.answer == nil { // etcd takes writes again
		eng.Health.setCommit(nil)
	}
	current := store.Results(resp.Responses).Found(0)
	p.moved = !resp.Succeeded
	switch {
	case resp.Succeeded && p.answer == nil:
		p.need = resp.Header.Revision
	case current != nil:
		p.need = current.ModRevision
	default:
		return true, nil
	}
	return false, nil
}

// undo undoes what the ops of a failed transaction have planned. It answers some of
// the calls, and returns those that are to be planned again.
func (p *pending) undo(s *Worker) []*call {
	var again []*call
	for _, l := range p.losers {
		if d, ok := l.op.(OnceOnly); ok && p.moved {
			d.Uncertain()
		}
		err := l.op.Lost(s, l.why)
		switch {
		case !errors.Is(err, ErrAgain):
			l.finish(err)
		case p.answer != nil:
			l.finish(p.answer)
		case !l.gone:
			l.traced.Requeued()
			again = append(again, l.call)
		}
	}
	return again
}
