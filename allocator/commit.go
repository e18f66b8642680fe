package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"

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
	place(s *worker) (share, error)
	// won takes the answers to share.then, committed at the revision, and gives
	// the caller's answer.
	won(s *worker, revision int64, got store.Results) error
	// lost takes back what place did. errAgain has the op placed again.
	lost(s *worker, why loss) error
}

// mover is an op that writes the key of a second claim, too.
type mover interface {
	// from is that claim; empty if there is none.
	from() ClaimID
}

// changer is an op that writes the key of a block which is in the ledger. One transaction
// may not write a key twice, and of two such ops one has seen the block as it is no longer.
type changer interface {
	// changes is that block; not valid if there is none.
	changes() netip.Prefix
}

// refuser is an op that may ask the transaction for nothing but to confirm a refusal.
type refuser interface {
	// refuses reports whether it does. It was decided with all that the calls before it in
	// the group are to have.
	refuses() bool
}

// loss says why the share of an op did not go through.
type loss struct {
	kind lossKind
	got  store.Results // of a refuted one: the answers to share.els
}

type lossKind int

const (
	// unanswered: whether the transaction has happened is not known, but it cannot
	// happen any more.
	unanswered lossKind = iota
	// overtaken: another writer has changed the space. Nothing was compared but its head.
	overtaken
	// refuted: a comparison of the share's own has failed.
	refuted
)

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

func (sh share) writes() bool { return slices.ContainsFunc(sh.then, store.Writes) }

// request writes the transaction of a group. The share of each call is a transaction of
// its own inside it, so that one that is refuted fails by itself. A call that is alone has
// none: refuted, it writes nothing at all.
func (s *worker) request(ctx context.Context, g *group) clientv3.Txn {
	key := s.engine.keys.Head(s.ID)
	ifs, els := g.at.Same(key), store.Ops(store.Get(key))
	then := make([]clientv3.Op, 0, g.ops())
	if g.alone() {
		sh := g.shares[0]
		ifs, then, els = append(ifs, sh.ifs...), append(then, sh.then...), append(els, sh.els...)
	} else {
		for _, sh := range g.shares {
			then = append(then, clientv3.OpTxn(sh.ifs, sh.then, sh.els))
		}
	}
	switch {
	case g.drops:
		then = append(then, store.Remove(key), store.Remove(s.engine.keys.Turn(s.ID)), store.Remove(s.engine.keys.Waiters(s.ID)))
	case g.writes:
		then = append(then, store.Put(key, store.EncodeHead(g.count())))
	}
	for to := range g.stamps {
		then = append(then, store.Put(s.engine.keys.Quota(to.Class, to.Cluster), store.EncodeFence()))
	}
	if s.asks() {
		els = append(els, s.ask())
	}
	return s.engine.store.Client.Txn(ctx).If(ifs...).Then(then...).Else(els...)
}

func (g *group) alone() bool { return len(g.calls) == 1 }

// outcome reads what a committed transaction says of the i-th share.
func (g *group) outcome(i int, resp *clientv3.TxnResponse) (succeeded bool, got store.Results) {
	if g.alone() {
		return true, store.Results(resp.Responses)
	}
	nested := resp.Responses[i].GetResponseTxn()
	return nested.Succeeded, store.Results(nested.Responses)
}

// commit makes one transaction of a group, and leaves it pending if it did not
// succeed. It reports whether another writer was in between.
func (s *worker) commit(g *group) (conflict bool) {
	begun, seen := s.engine.hooks.now(), s.engine.watched.get()
	resp, err := s.send(g)
	s.took = s.engine.hooks.now().Sub(begun)
	if err == nil {
		s.engine.compareRevision(seen, resp.Header.Revision)
		s.engine.health.setCommit(nil)
		if resp.Succeeded {
			s.won(g, resp)
			return false
		}
		return s.lost(g, resp.Responses)
	}
	if store.TooLarge(err) {
		s.tooLarge(g, err)
		return false
	}
	s.failed(g, err)
	return false
}

// tooLarge handles a group that etcd takes in smaller parts only. One call of a few
// operations that is too large is at fault itself, and nothing else is.
func (s *worker) tooLarge(g *group, err error) {
	s.pending = g.lose(loss{kind: overtaken})
	if g.alone() && len(g.shares[0].then) <= shareOps {
		s.pending.answer = fmt.Errorf("%w: %w", ErrInvalid, err)
		return
	}
	s.engine.shrink(g)
	if g.alone() {
		s.pending.answer = errMoved // to be made of smaller parts
	}
}

// failed handles a group that etcd did not carry out, or may not have.
func (s *worker) failed(g *group, err error) {
	words := s.engine.store.Unavailable(err)
	s.engine.health.setCommit(words)
	s.pending = g.lose(loss{kind: unanswered})
	switch {
	case store.Refused(err):
		s.pending.answer = words
	case store.NoSpace(err):
		s.pending.answer, s.pending.fence = words, s.fence(g)
	default:
		s.engine.logger.Warn("outcome of a transaction is unknown", "space", s.ID, "error", words)
		s.pending.fence = s.fence(g)
	}
}

func (s *worker) send(g *group) (*clientv3.TxnResponse, error) {
	eng := s.engine
	if err := eng.hooks.beforeCommit(s.ID); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(eng.ctx), eng.store.Timeout)
	defer cancel()
	defer eng.store.Traffic.Begin()()
	spans, started := g.trace(), eng.hooks.now()
	resp, err := s.request(ctx, g).Commit()
	endSpans(spans, err == nil && resp.Succeeded, err)
	eng.metrics.transactions.Observe(eng.hooks.now().Sub(started).Seconds())
	eng.metrics.groups.Observe(float64(len(g.calls)))
	if lost := eng.hooks.afterCommit(s.ID); lost != nil {
		return nil, lost
	}
	return resp, err
}

// won applies a group that was committed, without the shares that were refuted.
func (s *worker) won(g *group, resp *clientv3.TxnResponse) {
	revision, rest := resp.Header.Revision, &pending{}
	s.Lock()
	defer s.Unlock()
	for i, c := range g.calls {
		succeeded, got := g.outcome(i, resp)
		if !succeeded {
			rest.losers = append(rest.losers, loser{c, loss{refuted, got}})
			rest.learn(got)
			continue
		}
		if r, ok := c.op.(refuser); ok && r.refuses() && len(rest.losers) > 0 {
			// It made room for one before it, that has come to nothing.
			rest.losers = append(rest.losers, loser{c, loss{kind: overtaken}})
			continue
		}
		c.finish(c.op.won(s, revision, got))
		if st := g.shares[i].stamp; st != nil && st.compared { // else others may have put it since it was last seen
			s.Table.Quotas.Fenced(st.account, revision)
		}
	}
	if len(rest.losers) > 0 {
		s.pending = rest
	}
	if !g.writes || revision <= s.Known {
		return
	}
	s.Known = revision
	s.Head = g.at.Next(revision, g.count())
	if g.drops {
		s.Close()
	}
}

// lost handles a group whose comparisons failed: another writer has moved the head,
// or what the one call of the group compares is not so.
func (s *worker) lost(g *group, got store.Results) (conflict bool) {
	head, why := got.Found(0), loss{kind: overtaken}
	switch {
	case head == nil && g.at.Revision == 0:
		why = loss{refuted, got[1:]}
	case head != nil && head.ModRevision == g.at.Revision && string(head.Value) == g.at.Value:
		why = loss{refuted, got[1:]}
	case head != nil && head.ModRevision <= g.known:
		// No change up to there was unknown.
		s.engine.replaced(fmt.Sprintf("the head of space %s was put at revision %d, which is not what was seen there", s.ID, head.ModRevision))
	}
	s.pending = g.lose(why)
	s.pending.learn(got)
	if head == nil {
		s.end(g.at.Revision)
		return false
	}
	if conflict = why.kind == overtaken; conflict {
		s.engine.metrics.conflicts.Inc()
	}
	return conflict
}
