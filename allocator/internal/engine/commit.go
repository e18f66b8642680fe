package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// leastOps is how many operations etcd has to take in a transaction.
const leastOps = 8

// transaction builds it: if the head and all keys are as they were seen, then all changes, else the head as it is.
func (g *group) transaction(ctx context.Context, st *store.Store) store.Transaction {
	key := g.keys.Head()
	ifs, then := make([]clientv3.Cmp, 0, g.size.ifs+headOps), make([]clientv3.Op, 0, g.size.writes+headOps)
	ifs = append(ifs, g.at.Same(key)...)
	var common []string // keys that are put already, by another call of the group
	var farewells []*store.Farewell
	for c := range g.changes() {
		if c.Was != store.Any {
			ifs = append(ifs, store.At(c.Key, c.Was))
		}
		switch {
		case c.Tenure != nil:
			farewells = append(farewells, c.Tenure)
		case c.Common && slices.Contains(common, c.Key):
		case c.Verb == store.IsPut:
			if c.Common {
				common = append(common, c.Key)
			}
			then = append(then, store.Put(c.Key, c.Value))
		case c.Verb == store.IsRemoved:
			then = append(then, store.Remove(c.Key))
		}
	}
	then = append(then, g.keys.PutFarewells(g.at.Revision, farewells)...)
	return st.Transact(ctx, ifs, then, store.Ops(store.Get(key)))
}

// commit sends a group as one transaction, and leaves it pending if it did not succeed.
func (s *Worker) commit(g *group) {
	seen := s.Engine.Watched.Get()
	resp, err := s.send(g)
	switch {
	case store.TooLarge(err):
		s.tooLarge(g, err)
		return
	case errors.Is(err, ledger.ErrDeposed):
		s.pending = &pending{group: g, answer: err}
		return
	case err != nil:
		s.failed(g, err)
		return
	}
	s.Engine.Health.compare(seen, resp.Header.Revision)
	s.Engine.Health.setCommit(nil)
	if resp.Succeeded {
		s.won(g, resp.Header.Revision)
		return
	}
	s.beaten(g, resp)
}

func (s *Worker) send(g *group) (*clientv3.TxnResponse, error) {
	eng := s.Engine
	for _, c := range g.calls {
		c.attempts++
	}
	if err := eng.Hooks.BeforeCommit(s.ID); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(eng.Ctx), eng.store.Timeout)
	defer cancel()
	defer eng.store.Traffic.Begin()()
	spans, started := g.trace(), eng.Hooks.Now()
	resp, err := g.transaction(ctx, eng.store).Commit()
	endSpans(spans, err == nil && resp.Succeeded, err)
	eng.Metrics.transactions.Observe(eng.Hooks.Now().Sub(started).Seconds())
	eng.Metrics.groups.Observe(float64(len(g.calls)))
	if lost := eng.Hooks.AfterCommit(s.ID); lost != nil {
		return nil, lost
	}
	return resp, err
}

// won brings a group into memory that was committed at the revision, unless the watch has, and answers its calls.
func (s *Worker) won(g *group, revision int64) {
	if g.writes() {
		s.Engine.apply(revision, g.entries(revision))
	}
	s.Lock()
	defer s.Unlock()
	s.Discard()
	for _, c := range g.calls {
		c.plan.Revision, c.plan.Block.Revision, c.plan.Attempts = revision, revision, c.attempts
		c.finish(c.plan.Refusal)
	}
}

// beaten handles a group whose comparisons failed: another writer has put the head, or a call was refuted.
func (s *Worker) beaten(g *group, resp *clientv3.TxnResponse) {
	head := store.Results(resp.Responses).Found(0)
	switch {
	case g.isAt(resp.Responses):
		s.pending = s.blame(g, resp.Header.Revision)
		return
	case head == nil: // the space was retired
		s.pending = &pending{group: g, needAll: resp.Header.Revision}
		return
	case head.ModRevision <= g.known: // and no change up to there was unknown
		s.Engine.Health.replaced(fmt.Sprintf("the head of space %s was put at revision %d, which is not what was seen there", s.ID, head.ModRevision))
	}
	s.pending = &pending{group: g, need: head.ModRevision}
	s.Engine.Metrics.conflicts.Inc()
}

// isAt reports whether the head that etcd has returned first is that of the group's plan.
func (g *group) isAt(got store.Results) bool {
	head := got.Found(0)
	if head == nil {
		return g.at.Revision == 0
	}
	return head.ModRevision == g.at.Revision && string(head.Value) == g.at.Value
}

// blame finds the calls of a group that were refuted, and their answers: it reads their keys as of the revision at which
// the transaction failed. The others are planned again, without those behind them, so that one call
// which is refuted again and again costs the others one transaction of two.
func (s *Worker) blame(g *group, revision int64) *pending {
	p := &pending{group: g, answers: map[*call]error{}}
	gets := store.Ops(clientv3.OpGet(g.keys.Head(), clientv3.WithRev(revision)))
	for c := range g.changes() {
		if c.Was != store.Any {
			gets = append(gets, clientv3.OpGet(c.Key, clientv3.WithRev(revision), clientv3.WithKeysOnly()))
		}
	}
	resp, err := s.Engine.store.Commit(s.Engine.Ctx, nil, gets, nil)
	if err != nil { // all are planned again
		return p
	}
	found := store.Results(resp.Responses)
	for _, c := range g.calls {
		for i := range c.plan.Changes {
			change := &c.plan.Changes[i]
			if change.Was == store.Any {
				continue
			}
			found = found[1:]
			now := found.Revision(0)
			if _, has := p.answers[c]; has || now == change.Was {
				continue
			}
			answer, lags := s.refute(change, now)
			if p.answers[c] = answer; errors.Is(answer, ErrAgain) {
				p.need = max(p.need, now) // memory has to have that first
			}
			if lags {
				p.needAll = revision
			}
		}
	}
	s.refuted = len(p.answers) > 0
	return p
}

// refute returns the answer of a call that has seen a key otherwise than it is in the ledger now: last changed at
// the revision, or gone. lags: the watch has to bring that it is gone.
func (s *Worker) refute(c *store.Change, now int64) (answer error, lags bool) {
	if e := c.Entry; e != nil && now == 0 {
		lags = !s.Engine.forget(e, c.Was)
	}
	if c.Else == ErrMistaken { //nolint:errorlint // it is the value itself
		return s.distrust(c.Key), false
	}
	return c.Else, lags && errors.Is(c.Else, ErrAgain)
}

// tooLarge handles a group that is too large for etcd. The next ones are smaller. A single call
// of a few operations cannot be made smaller: it is refused.
func (s *Worker) tooLarge(g *group, err error) {
	s.pending = &pending{group: g}
	ops, alone := g.size.ops(), len(g.calls) == 1
	if alone && ops <= leastOps {
		s.pending.answer = fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
		return
	}
	s.Engine.Limit.Store(int64(ops / 2))
	s.Engine.logger.Warn("etcd allows fewer operations in a transaction than configured", "operations", ops/2)
	if alone {
		s.pending.answer = ErrStale // the caller makes a smaller one
	}
}

// failed handles a group that etcd refused, or whose outcome is unknown.
func (s *Worker) failed(g *group, err error) {
	words := s.Engine.store.Unavailable(err)
	s.Engine.Health.setCommit(words)
	s.pending = &pending{group: g, unknown: true}
	switch {
	case store.Refused(err):
		s.pending.answer, s.pending.unknown = words, false
	case store.NoSpace(err):
		s.pending.answer = words
	default:
		s.Engine.logger.Warn("outcome of a transaction is unknown", "space", s.ID, "error", words)
	}
}

// trace starts the spans of the group's transaction: one in each of its traces.
func (g *group) trace() []trace.Span {
	var members []*traced
	for _, c := range g.calls {
		if c.traced != nil {
			members = append(members, c.traced)
		}
	}
	if len(members) == 0 {
		return nil
	}
	size := trace.WithAttributes(attribute.Int("ipam.group.requests", len(g.calls)))
	links := make([]trace.Link, 0, len(members)-1)
	for _, m := range members[1:] {
		links = append(links, trace.LinkFromContext(m.ctx))
	}
	ctx, shared := members[0].tracer.Start(members[0].ctx, "etcd transaction", size, trace.WithLinks(links...))
	spans := []trace.Span{shared}
	link := trace.WithLinks(trace.LinkFromContext(ctx))
	for _, m := range members[1:] {
		_, span := m.tracer.Start(m.ctx, "etcd transaction", size, link)
		spans = append(spans, span)
	}
	return spans
}
