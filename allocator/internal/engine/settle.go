package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// retrySettle is the pause before the next attempt to settle a group.
const retrySettle = 250 * time.Millisecond

// errUncertain: etcd did not answer, and the Allocator was closed before it could ask again.
var errUncertain = fmt.Errorf("%w: the outcome is unknown; ask again", ledger.ErrUnavailable)

// settle finds out for certain what became of the pending group. It then answers the calls, or queues them again.
func (w *writer) settle() error {
	p := w.pending
	if p == nil {
		return nil
	}
	landed := int64(0)
	if p.sent != nil {
		ctx, cancel := context.WithTimeout(w.Ctx, w.store.Timeout)
		defer cancel()
		var err error
		switch landed, err = w.office.Outcome(ctx, p.sent); {
		case store.Gone(err):
			p.answer = w.Health.end(err)
		case err != nil:
			return w.store.Unavailable(err)
		case p.answer == nil: // etcd takes writes again
			w.Health.setCommit(nil)
		}
	}
	w.pending = nil
	if landed > 0 {
		w.won(p.group, landed)
		return nil
	}
	w.lose(p)
	return nil
}

// lose answers the calls of a group that was not committed, or queues them to be planned again.
func (w *writer) lose(p *pending) {
	p.group.discard()
	var again []*call
	for _, c := range p.group.calls {
		err, refuted := p.answers[c]
		switch {
		case refuted && !errors.Is(err, ErrAgain):
			c.finish(err)
		case p.answer != nil:
			c.finish(p.answer)
		case !c.gone.Load():
			c.traced.Requeued()
			again = append(again, c)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.putBack(again)
}
