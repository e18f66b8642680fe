package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// retrySettle is the pause before the next attempt to settle a group.
const retrySettle = 250 * time.Millisecond

// settle waits until the outcome of the pending group is certain, and memory is up to date with it. It then answers the
// calls, or queues them again.
func (s *Worker) settle() error {
	p := s.pending
	if p == nil {
		return nil
	}
	if p.unknown {
		if err := s.fence(p); err != nil {
			return err
		}
	}
	if err := s.Engine.Watched.Await(s.Engine.Ctx, p.need); err != nil {
		return err
	}
	if err := s.Engine.Watched.AwaitAll(s.Engine.Ctx, p.needAll); err != nil {
		return err
	}
	s.pending = nil
	if landed := s.lose(p); landed > 0 {
		s.won(p.group, landed)
	}
	return nil
}

// fence makes sure that a transaction whose outcome is unknown cannot happen any more: it puts a key that the
// transaction compares. A read would not be enough, since the transaction may still be on its way to etcd. It
// is enough if etcd has refused the transaction, or if that changes nothing.
func (s *Worker) fence(p *pending) error {
	ctx, cancel := context.WithTimeout(s.Engine.Ctx, s.Engine.store.Timeout)
	defer cancel()
	key, same, value := p.group.fence()
	reads := p.answer != nil || !p.group.writes()
	then := store.Put(key, value)
	if reads {
		same, then = nil, store.Get(key)
	}
	resp, err := s.Engine.store.Transact(ctx, same, store.Ops(then), store.Ops(store.Get(key))).Commit()
	switch {
	case errors.Is(err, ledger.ErrDeposed):
		return err
	case err != nil:
		return s.Engine.store.Unavailable(err)
	}
	if p.answer == nil { // etcd takes writes again
		s.Engine.Health.setCommit(nil)
	}
	current := store.Results(resp.Responses).Found(0)
	switch {
	case resp.Succeeded && !reads:
		p.need = resp.Header.Revision
	case current != nil:
		p.moved, p.need = p.group.writes(), current.ModRevision
	default:
		p.moved, p.needAll = p.group.writes(), resp.Header.Revision
	}
	p.unknown = false
	return nil
}

// fence returns the key that has to be put so that the group's transaction can no longer succeed, the transaction's
// compares of it, and its new value. A space without a head is that of a root pool, which compares the fence of its workspace.
func (g *group) fence() (key string, same []clientv3.Cmp, value string) {
	key = g.keys.Head()
	for c := range g.changes() {
		if g.at.Revision == 0 && c.Entry != nil && c.Entry.Kind == store.RootsKey {
			return c.Key, store.Cmps(store.At(c.Key, c.Was)), c.Value
		}
	}
	return key, g.at.Same(key), store.EncodeHead(g.count, "")
}

// lose answers the calls of a group that was not committed, or queues them to be planned again. landed is the revision
// at which it was committed all the same; 0: it was not.
func (s *Worker) lose(p *pending) (landed int64) {
	s.Lock()
	defer s.Unlock()
	if p.moved {
		var certain bool
		if landed, certain = p.group.draft.Landed(); landed > 0 {
			return landed
		}
		if !certain {
			p.answer = ErrUncertain
		}
	}
	s.Discard()
	var again []*call
	for _, c := range p.group.calls {
		err, refuted := p.answers[c]
		switch {
		case refuted && !errors.Is(err, ErrAgain):
			c.finish(err)
		case p.answer != nil:
			c.finish(p.answer)
		case !c.gone:
			c.traced.Requeued()
			again = append(again, c)
		}
	}
	s.Queue.putBack(again)
	return 0
}

// refuse answers all calls with err. The worker stays with the pending
// group, even if the queue is empty: until that is settled, memory may differ from
// the ledger. It reports false, and the worker ends, when the allocator is closed. Then nobody settles the group.
func (s *Worker) refuse(err error) bool {
	s.Lock()
	defer s.Unlock()
	sent := err
	if s.Engine.Ctx.Err() != nil {
		err, sent = ledger.ErrClosed, ledger.ErrClosed
		if s.pending.unknown || s.pending.moved {
			sent = fmt.Errorf("%w: %w", ledger.ErrClosed, ErrUncertain)
		}
	}
	for _, c := range s.pending.group.calls {
		c.finish(sent)
	}
	for c := s.Queue.peek(); c != nil; c = s.Queue.peek() {
		s.Queue.pop()
		c.finish(err)
	}
	s.Working = s.Engine.Ctx.Err() == nil
	return s.Working
}
