package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A flat transaction carries out all parts of a group itself. It is smaller than one with a nested
// transaction for each part, and takes etcd less time. But if one part is refuted, the whole transaction
// is. Few parts ever are. So groups are flat, until one is refuted; then the parts of the next ones are
// nested, so that a refuted one fails by itself.

// nestedGroups is how many groups are nested after a flat one was refuted. Of a caller that is always
// refuted, the others of its space notice one more transaction in so many.
const nestedGroups = 64

// request builds the transaction of a group on a space. A call that is alone has no part: if it is
// refuted, the transaction writes nothing.
func (g *group) request(txn clientv3.Txn, keys store.SpaceKeys) clientv3.Txn {
	key := keys.Head()
	ifs, els := g.at.Same(key), store.Ops(store.Get(key))
	then := make([]clientv3.Op, 0, g.ops())
	if g.flat {
		many, ops := g.flatOps()
		ifs, then = slices.Grow(ifs, many), slices.Grow(then, ops)
	}
	if g.alone() {
		sh := g.shares[0]
		sh.Then = g.withFarewell(sh, 0, keys)
		ifs, then, els = append(ifs, sh.Ifs...), append(then, sh.Then...), append(els, store.Gets(sh.Look)...)
	} else {
		for i := range g.parts {
			partIfs, partThen, look := g.part(i, keys)
			if g.flat {
				ifs, then = append(ifs, partIfs...), append(then, partThen...)
			} else {
				then = append(then, clientv3.OpTxn(partIfs, partThen, store.Gets(look)))
			}
		}
	}
	switch {
	case g.drops:
		then = append(then, store.Remove(key), store.Remove(keys.Turn()))
	case g.writes:
		then = append(then, store.Put(key, store.EncodeHead(g.count())))
	}
	for to := range g.stamps {
		then = append(then, store.Put(keys.Quota(to.Class, to.Cluster), store.EncodeFence()))
	}
	if g.wish != nil {
		els = append(els, store.Put(keys.Turn(), store.EncodeTurn(*g.wish)))
	}
	return txn.If(ifs...).Then(then...).Else(els...)
}

func (g *group) alone() bool { return len(g.calls) == 1 }

// commit sends a group as one transaction, and leaves it pending if it did not
// succeed. It reports whether another writer has changed the space since the group was planned.
func (s *Worker) commit(g *group) (conflict bool) {
	if s.losses > 0 { // other writers came first
		g.wish = &store.Turn{Writer: s.Engine.writer, Took: s.took}
	}
	begun, seen := s.Engine.Hooks.Now(), s.Engine.Watched.Get()
	resp, err := s.send(g)
	s.took = s.Engine.Hooks.Now().Sub(begun)
	if err == nil {
		s.Engine.Health.compare(seen, resp.Header.Revision)
		s.Engine.Health.setCommit(nil)
		if resp.Succeeded {
			s.committed(g, resp)
			return false
		}
		return s.conflicted(g, resp.Responses)
	}
	if store.TooLarge(err) {
		s.tooLarge(g, err)
		return false
	}
	s.failed(g, err)
	return false
}

// tooLarge handles a group that is too large for etcd. The next ones are smaller. A single call
// of a few operations cannot be made smaller: it is refused.
func (s *Worker) tooLarge(g *group, err error) {
	s.lose(g, Loss{Kind: Overtaken})
	if g.alone() && len(g.shares[0].Then) <= shareOps {
		s.pending.answer = fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
		return
	}
	limit := max(g.ops(), len(g.shares[0].Then)) / 2
	s.Engine.Limit.Store(int64(limit))
	s.Engine.logger.Warn("etcd allows fewer operations in a transaction than configured", "operations", limit)
	if g.alone() {
		s.pending.answer = ErrStale // the caller makes a smaller one
	}
}

// failed handles a group that etcd refused, or whose outcome is unknown.
func (s *Worker) failed(g *group, err error) {
	words := s.Engine.store.Unavailable(err)
	s.Engine.Health.setCommit(words)
	s.lose(g, Loss{Kind: Unanswered})
	switch {
	case store.Refused(err):
		s.pending.answer = words
	case store.NoSpace(err):
		s.pending.answer, s.pending.fence = words, g.fence(s.Keys)
	default:
		s.Engine.logger.Warn("outcome of a transaction is unknown", "space", s.ID, "error", words)
		s.pending.fence = g.fence(s.Keys)
	}
}

func (s *Worker) send(g *group) (*clientv3.TxnResponse, error) {
	eng := s.Engine
	if err := eng.Hooks.BeforeCommit(s.ID); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(eng.Ctx), eng.store.Timeout)
	defer cancel()
	defer eng.store.Traffic.Begin()()
	spans, started := g.trace(), eng.Hooks.Now()
	g.divide(int(eng.Limit.Load()))
	if s.nest > 0 {
		s.nest--
	} else {
		g.flatten(int(eng.Limit.Load()))
	}
	resp, err := g.request(eng.store.Client.Txn(ctx), s.Keys).Commit()
	endSpans(spans, err == nil && resp.Succeeded, err)
	eng.Metrics.transactions.Observe(eng.Hooks.Now().Sub(started).Seconds())
	eng.Metrics.groups.Observe(float64(len(g.calls)))
	if lost := eng.Hooks.AfterCommit(s.ID); lost != nil {
		return nil, lost
	}
	return resp, err
}

// committed applies a group that was committed, without the shares that were refuted.
func (s *Worker) committed(g *group, resp *clientv3.TxnResponse) {
	revision, rest := resp.Header.Revision, &pending{}
	s.Lock()
	defer s.Unlock()
	outcomes := g.outcomes(resp)
	var compared []space.Account // whose fences the group has compared and put
	for i, c := range g.calls {
		succeeded, got := outcomes[i].succeeded, outcomes[i].got
		if !succeeded {
			rest.losers = append(rest.losers, loser{c, outcomes[i].why})
			rest.sawRevisions(got)
			continue
		}
		if r, ok := c.op.(refuser); ok && r.Refuses() && len(rest.losers) > 0 {
			// It was refused because of a call before it, which has failed.
			rest.losers = append(rest.losers, loser{c, Loss{Kind: Overtaken}})
			continue
		}
		c.finish(c.op.Won(s, revision, got))
		if st := g.shares[i].Stamp; st != nil && st.compared { // else other writers may have put it since it was last seen
			compared = append(compared, st.account)
		}
	}
	for _, account := range compared { // all shares are counted by now
		s.Table.Quotas.Fenced(account, revision)
	}
	if len(rest.losers) > 0 {
		s.pending = rest
	}
	if g.writes && revision > s.Known {
		s.Known = revision
		s.Head = g.at.Next(revision, g.count())
		if g.drops {
			s.Close()
		}
	}
}

// conflicted handles a group whose comparisons failed: another writer has put the head,
// or a comparison of the group's only call has failed, or one of a flat group, whose calls are planned again.
func (s *Worker) conflicted(g *group, got store.Results) (conflict bool) {
	head, why := got.Found(0), Loss{Kind: Overtaken}
	unchanged := head != nil && head.ModRevision == g.at.Revision && string(head.Value) == g.at.Value
	switch {
	case unchanged && g.flat:
		s.nest = nestedGroups
	case unchanged, head == nil && g.at.Revision == 0:
		why = Loss{Refuted, got[1:]}
	case head != nil && head.ModRevision <= g.known:
		// No change up to there was unknown.
		s.Engine.Health.replaced(fmt.Sprintf("the head of space %s was put at revision %d, which is not what was seen there", s.ID, head.ModRevision))
	}
	s.lose(g, why)
	s.pending.sawRevisions(got)
	if head == nil {
		s.closeAt(g.at.Revision)
		return false
	}
	if conflict = why.Kind == Overtaken && !unchanged; conflict {
		s.Engine.Metrics.conflicts.Inc()
	}
	return conflict
}
