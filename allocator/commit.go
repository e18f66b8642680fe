package allocator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// op is a request as the worker sees it. All methods are called with the
// space's lock held.
type op interface {
	// cluster names the workspace in whose lane the request waits.
	cluster() ClusterName
	// claim is the claim whose keys the op writes; ok is false for an op that
	// needs a transaction of its own.
	claim() (id ClaimID, ok bool)
	// place decides, by what the space holds, what to ask of the transaction.
	// An error is the answer, and nothing is asked.
	place(s *space) (share, error)
	// won takes the answers to share.then, committed at the revision, and gives
	// the caller's answer.
	won(s *space, revision int64, got results) error
	// lost takes the answers to share.els, or nil if the transaction was not
	// answered, and undoes what place did. errAgain has the op placed again.
	lost(s *space, got results) error
}

var (
	// errAgain: nothing speaks against another attempt.
	errAgain = errors.New("place again")
	// errMoved: what the op was made from is no longer so. It has to be made anew.
	errMoved = errors.New("ledger has moved on")
)

// share is what one op asks of the transaction of its group.
type share struct {
	ifs       []clientv3.Cmp
	then, els []clientv3.Op
	// drops ends the space: its head is deleted.
	drops bool
	// count is what the count of the space's changes becomes, at the least.
	count int64
	// stamp is the fence of a quota that the transaction puts, once for all shares.
	stamp *stamp
	// fence settles an unknown outcome where the space has no head yet.
	fence *fence
}

func (sh share) writes() bool { return slices.ContainsFunc(sh.then, writes) }

// fence is a key that a transaction compares. Once it is put again, that
// transaction can no longer succeed.
type fence struct {
	key      string
	revision int64
	value    string
}

// pending is a transaction that did not succeed, or may have. The worker goes
// on when that is certain, and the indexes are up to date with it.
type pending struct {
	group  *group
	got    results // of the else branch
	fence  *fence  // still to be put, if the outcome is unknown
	answer error   // for the callers; nil has them placed again
	need   int64   // revision that the watch has to reach
	moved  bool    // the fence was too late: the transaction may have gone through
}

// doubter is an op that must not be done twice. It is told when an attempt may
// have gone through, and been undone by others since.
type doubter interface {
	doubt()
}

// request writes the transaction of a group.
func (s *space) request(ctx context.Context, g *group) clientv3.Txn {
	key := s.alloc.keys.head(s.id)
	ifs, then, els := make([]clientv3.Cmp, 0, g.ops+1), make([]clientv3.Op, 0, g.ops+1), make([]clientv3.Op, 0, g.ops+1)
	ifs, els = append(ifs, at(key, g.at.revision)), append(els, get(key))
	for _, sh := range g.shares {
		ifs = append(ifs, sh.ifs...)
		then = append(then, sh.then...)
		els = append(els, sh.els...)
	}
	switch {
	case g.drops:
		then = append(then, remove(key))
	case g.writes:
		then = append(then, put(key, encodeHead(g.count())))
	}
	for to := range g.stamps {
		then = append(then, put(s.alloc.keys.quota(to), encodeFence()))
	}
	return s.alloc.client.Txn(ctx).If(ifs...).Then(then...).Else(els...)
}

// commit makes one transaction of a group, and leaves it pending if it did not
// succeed. It reports whether another writer was in between.
func (s *space) commit(g *group) (conflict bool) {
	resp, err := s.send(g)
	if err == nil {
		s.alloc.health.setCommit(nil)
		if resp.Succeeded {
			s.won(g, resp)
			return false
		}
		return s.overtaken(g, resp.Responses)
	}
	if tooLarge(err) && len(g.calls) > 1 {
		s.alloc.shrink(g)
		s.pending = &pending{group: g}
		return false
	}
	s.failed(g, err)
	return false
}

// failed handles a group that etcd did not carry out, or may not have.
func (s *space) failed(g *group, err error) {
	words := s.alloc.unavailable(err)
	s.alloc.health.setCommit(words)
	s.pending = &pending{group: g}
	switch {
	case refused(err) || tooLarge(err):
		s.pending.answer = words
	case is(err, rpctypes.ErrNoSpace):
		s.pending.answer, s.pending.fence = words, s.fence(g)
	default:
		s.alloc.options.Logger.Warn("outcome of a transaction is unknown", "space", s.id, "error", words)
		s.pending.fence = s.fence(g)
	}
}

func (s *space) send(g *group) (*clientv3.TxnResponse, error) {
	a := s.alloc
	if err := a.hooks.beforeCommit(s.id); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), a.hooks.timeout)
	defer cancel()
	spans, started := g.trace(), a.hooks.now()
	resp, err := s.request(ctx, g).Commit()
	endSpans(spans, err == nil && resp.Succeeded, err)
	a.metrics.transactions.Observe(a.hooks.now().Sub(started).Seconds())
	a.metrics.groups.Observe(float64(len(g.calls)))
	if lost := a.hooks.afterCommit(s.id); lost != nil {
		return nil, lost
	}
	return resp, err
}

// won applies a group that was committed.
func (s *space) won(g *group, resp *clientv3.TxnResponse) {
	revision, got := resp.Header.Revision, results(resp.Responses)
	s.lock()
	defer s.unlock()
	for i, c := range g.calls {
		n := len(g.shares[i].then)
		c.finish(c.op.won(s, revision, got[:n]))
		got = got[n:]
	}
	for to, compared := range g.stamps {
		if compared { // else others may have put it since it was last seen
			s.alloc.quotas.fenced(to, revision)
		}
	}
	if g.writes && s.frozen() != thawed {
		s.strides += g.count() - g.at.count
	}
	if !g.writes || revision <= s.known {
		return
	}
	s.known = revision
	s.head = head{revision: revision, count: g.count()}
	if g.drops {
		s.close()
	}
}

// overtaken handles a group whose comparisons failed: another writer has moved
// the head, or something that an op compares is not so.
func (s *space) overtaken(g *group, got results) (conflict bool) {
	p := &pending{group: g, got: got}
	s.pending = p
	current := got.found(0)
	for i := range got {
		if kv := got.found(i); kv != nil {
			p.need = max(p.need, kv.ModRevision) // what was seen there has to be known here
		}
	}
	if current == nil {
		s.end(g.at.revision)
		return false
	}
	if conflict = current.ModRevision != g.at.revision; conflict {
		s.alloc.metrics.conflicts.Inc()
	}
	return conflict
}

// end marks the space as retired, if it had a head and still seems to have it.
func (s *space) end(revision int64) {
	s.lock()
	defer s.unlock()
	if revision > 0 && s.head.revision == revision {
		s.close()
	}
}

// fence chooses what has to be put for a group's transaction to be over.
func (s *space) fence(g *group) *fence {
	if g.at.revision == 0 {
		return g.shares[0].fence
	}
	return &fence{key: s.alloc.keys.head(s.id), revision: g.at.revision, value: encodeHead(g.at.count + 1)}
}

// settle waits until the outcome of the pending transaction is certain and the
// indexes know of it. Its calls are then answered or queued again.
func (s *space) settle() error {
	p := s.pending
	if p == nil {
		return nil
	}
	if p.fence != nil {
		if err := s.raise(p); err != nil {
			return err
		}
	}
	if err := s.alloc.await(s.alloc.ctx, p.need); err != nil {
		return err
	}
	s.lock()
	defer s.unlock()
	s.pending = nil
	again := s.undo(p)
	s.queue.unpop(again)
	s.alloc.metrics.queued.Add(float64(len(again)))
	return nil
}

// raise puts the fence of a transaction whose outcome is unknown. A read would
// not do: the transaction may still be on its way. What etcd has answered for
// certain, if not with an outcome, needs no more than a read.
func (s *space) raise(p *pending) error {
	ctx, cancel := context.WithTimeout(s.alloc.ctx, s.alloc.hooks.timeout)
	defer cancel()
	f := p.fence
	txn := s.alloc.client.Txn(ctx).If(at(f.key, f.revision)).Then(put(f.key, f.value)).Else(get(f.key))
	if p.answer != nil {
		txn = s.alloc.client.Txn(ctx).Then(get(f.key))
	}
	resp, err := txn.Commit()
	if err != nil {
		return s.alloc.unavailable(err)
	}
	if p.answer == nil { // it has written, or could have
		s.alloc.health.setCommit(nil)
	}
	current := results(resp.Responses).found(0)
	p.moved = !resp.Succeeded
	switch {
	case resp.Succeeded && p.answer == nil:
		p.need = resp.Header.Revision
	case current != nil:
		p.need = current.ModRevision
	default:
		s.end(f.revision)
	}
	p.fence = nil
	return nil
}

// undo takes back what the ops of a failed transaction had placed, answers
// those that are decided, and returns the others.
func (s *space) undo(p *pending) []*call {
	var again []*call
	got := p.got
	if got != nil {
		got = got[1:] // the head's
	}
	for i, c := range p.group.calls {
		var mine results
		if got != nil {
			n := len(p.group.shares[i].els)
			mine, got = got[:n:n], got[n:]
		}
		if d, ok := c.op.(doubter); ok && p.moved {
			d.doubt()
		}
		err := c.op.lost(s, mine)
		switch {
		case !errors.Is(err, errAgain):
			c.finish(err)
		case p.answer != nil:
			c.finish(p.answer)
		case !c.gone:
			c.traced.requeued()
			again = append(again, c)
		}
	}
	return again
}

// behind says that the watch could not be waited for.
func (a *Allocator) behind() error {
	err := fmt.Errorf("%w: the watch is behind", ErrUnavailable)
	a.health.setWatch(err)
	return err
}
