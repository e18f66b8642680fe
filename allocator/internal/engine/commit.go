package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// leastOps is the least number of operations that etcd has to allow in a transaction.
const leastOps = 8

// parts returns the comparisons and the operations of a group's transaction, except those of the ledger's head.
func (g *group) parts() (ifs []clientv3.Cmp, then []clientv3.Op) {
	ifs, then = make([]clientv3.Cmp, 0, g.size.ifs+headOps), make([]clientv3.Op, 0, g.size.writes+headOps)
	for c := range g.changes() {
		if c.Was != store.Any {
			ifs = append(ifs, store.At(c.Key, c.Was))
		}
		switch {
		case c.Tenure != nil:
		case c.Verb == store.IsPut:
			then = append(then, store.Put(c.Key, c.Value))
		case c.Verb == store.IsRemoved:
			then = append(then, store.Remove(c.Key))
		}
	}
	return ifs, append(then, g.history()...)
}

// history returns the operations that record the tenures which the group ends.
func (g *group) history() (puts []clientv3.Op) {
	ended := map[ledger.SpaceID][]*store.Farewell{}
	for _, c := range g.calls {
		for i := range c.plan.Changes {
			if t := c.plan.Changes[i].Tenure; t != nil {
				ended[c.space.ID] = append(ended[c.space.ID], t)
			}
		}
	}
	for id, tenures := range ended {
		p := g.spaces[id]
		puts = append(puts, p.Keys.PutFarewells(p.Head.Revision, tenures)...)
	}
	return puts
}

// commit sends a group as one transaction, and leaves it pending if it did not succeed.
func (w *writer) commit(g *group) {
	resp, sent, err := w.send(g)
	switch {
	case store.TooLarge(err):
		w.tooLarge(g, err)
	case store.Gone(err):
		w.pending = &pending{group: g, answer: w.Health.end(err)}
	case err != nil:
		w.failed(g, sent, err)
	default:
		w.Health.setCommit(nil)
		if resp.Succeeded {
			w.won(g, resp.Header.Revision)
			return
		}
		w.pending = w.blame(g, resp.Header.Revision)
	}
}

func (w *writer) send(g *group) (*clientv3.TxnResponse, *store.Sent, error) {
	for _, c := range g.calls {
		c.attempts++
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Ctx), w.store.Timeout)
	defer cancel()
	defer w.store.Traffic.Begin()()
	spans, started := g.trace(), w.Hooks.Now()
	ifs, then := g.parts()
	around := w.around(slices.Sorted(maps.Keys(g.spaces)))
	resp, sent, err := w.office.Send(ctx, store.Transaction{If: ifs, Then: then, Around: around})
	endSpans(spans, err == nil && resp.Succeeded, err)
	w.Metrics.transactions.Observe(w.Hooks.Now().Sub(started).Seconds())
	w.Metrics.groups.Observe(float64(len(g.calls)))
	return resp, sent, err
}

// around returns a function that sends a transaction on these spaces, and calls the hooks of a test before and after.
func (w *writer) around(
	spaces []ledger.SpaceID,
) func(func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
	return func(send func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
		for _, id := range spaces {
			if err := w.Hooks.BeforeCommit(id); err != nil {
				return nil, err
			}
		}
		resp, err := send()
		for _, id := range spaces {
			if lost := w.Hooks.AfterCommit(id); lost != nil {
				return nil, lost
			}
		}
		return resp, err
	}
}

// won brings the changes of a committed group into memory, and answers its calls. revision is the revision of the
// commit.
func (w *writer) won(g *group, revision int64) {
	w.apply(g.entries(revision))
	if g.writes() {
		w.Revision.Store(revision)
	}
	g.discard()
	for _, c := range g.calls {
		c.plan.Revision, c.plan.Block.Revision, c.plan.Attempts = revision, revision, c.attempts
		c.finish(c.plan.Refusal)
	}
}

// blame finds the refuted calls of a group, and their answers: it reads the keys that the calls compare, as of the
// revision at which the transaction failed. The other calls are planned again, in a group without later calls. So a
// call that is refuted again and again costs the others only every second transaction.
func (w *writer) blame(g *group, revision int64) *pending {
	p := &pending{group: g, answers: map[*call]error{}}
	var gets []clientv3.Op
	var of []*call
	var seen []*store.Change
	for _, c := range g.calls {
		for i := range c.plan.Changes {
			if change := &c.plan.Changes[i]; change.Was != store.Any {
				gets = append(gets, clientv3.OpGet(change.Key, clientv3.WithRev(revision), clientv3.WithKeysOnly()))
				of, seen = append(of, c), append(seen, change)
			}
		}
	}
	resp, err := w.store.Commit(w.Ctx, nil, gets, nil)
	if err != nil { // all calls are planned again
		return p
	}
	for i, c := range of {
		if _, has := p.answers[c]; has || store.Results(resp.Responses).Revision(i) == seen[i].Was {
			continue
		}
		if p.answers[c] = seen[i].Else; errors.Is(seen[i].Else, ErrMistaken) {
			p.answer = w.Health.end(fmt.Errorf("%w (memory differs from it at %s)", ledger.ErrReplaced, seen[i].Key))
			p.answers[c] = p.answer
		}
	}
	w.refuted = len(p.answers) > 0
	return p
}

// tooLarge handles a group that is too large for etcd. The next groups are smaller. A single call with few operations
// cannot be made smaller: it is refused.
func (w *writer) tooLarge(g *group, err error) {
	w.pending = &pending{group: g}
	ops, alone := g.size.ops(), len(g.calls) == 1
	if alone && ops <= leastOps {
		w.pending.answer = fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
		return
	}
	w.Limit.Store(int64(ops / 2))
	w.logger.Warn("etcd allows fewer operations in a transaction than configured", "operations", ops/2)
	if alone {
		w.pending.answer = ErrOvertaken // the caller makes a smaller operation
	}
}

// failed handles a group that etcd refused, or whose outcome is unknown.
func (w *writer) failed(g *group, sent *store.Sent, err error) {
	words := w.store.Unavailable(err)
	w.Health.setCommit(words)
	w.pending = &pending{group: g, sent: sent}
	switch {
	case sent == nil, store.NoSpace(err):
		w.pending.answer = words
	default:
		w.logger.Warn("outcome of a transaction is unknown", "requests", len(g.calls), "error", words)
	}
}

// trace starts the spans of the group's transaction: one span in the trace of each call that is traced.
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
