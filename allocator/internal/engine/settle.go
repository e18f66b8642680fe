package engine

import (
	"context"
	"errors"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// pending are the calls of a transaction that did not succeed, or may have, or not
// for all. The worker goes on when that is certain, and the indexes are up to date with it.
type pending struct {
	losers []loser
	fence  *Fence // still to be put, if the outcome is unknown
	answer error  // for the callers; nil: they are planned again
	need   int64  // revision that the watch has to reach
	moved  bool   // the fence was too late: the transaction may have gone through
}

// loser is a call whose share did not go through.
type loser struct {
	*call
	why Loss
}

// lose makes all calls of a group losers, for the same reason.
func (g *group) lose(why Loss) *pending {
	p := &pending{losers: make([]loser, len(g.calls))}
	for i, c := range g.calls {
		p.losers[i] = loser{c, why}
	}
	return p
}

// sawRevisions notes what was seen in the ledger: it has to be known here before the losers
// are planned again.
func (p *pending) sawRevisions(got store.Results) {
	for i := range got {
		if kv := got.Found(i); kv != nil {
			p.need = max(p.need, kv.ModRevision)
		}
	}
}

// closeAt marks the space as retired, if it had a head and still seems to have it.
func (s *Worker) closeAt(revision int64) {
	s.Lock()
	defer s.Unlock()
	if revision > 0 && s.Head.Revision == revision {
		s.Close()
	}
}

// fence chooses what has to be put for a group's transaction to be over.
func (g *group) fence(keys store.SpaceKeys) *Fence {
	if g.at.Revision == 0 {
		return g.shares[0].Fence
	}
	key := keys.Head()
	return &Fence{Key: key, Revision: g.at.Revision, Same: g.at.Same(key), Value: store.EncodeHead(g.at.Count + g.stride)}
}

// settle waits until the outcome of the pending transaction is certain and the
// indexes know of it. Its calls are then answered or queued again.
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
// not do: the transaction may still be on its way. What etcd has answered for
// certain, if not with an outcome, needs no more than a read. It reports whether the fence is
// gone.
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
	if p.answer == nil { // it has written, or could have
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

// undo takes back what the ops of a failed transaction had planned, answers
// those that are decided, and returns the others.
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
