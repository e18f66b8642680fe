package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// writer commits the operations on all spaces, one transaction after the other, and as many operations in each as fit.
// So every operation is planned on the latest ledger, whichever spaces it touches. Its goroutine runs while there are
// operations.
type writer struct {
	*Engine

	mu      sync.Mutex
	queue   queue
	Working bool // the goroutine runs

	// The goroutine's own.
	office  *store.Office
	pending *pending // the last group, if its outcome is not certain
	refuted bool     // a call of the last group was refuted: its other calls come next, without later calls
}

// Queued counts the calls that wait for a transaction.
func (w *writer) Queued() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue.size
}

// Idle reports whether the writer has nothing to do: no operation waits, and none is in a transaction.
func (w *writer) Idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.Working
}

// Submit gives an op on the space of a pool to the writer, and waits for the answer. If ctx ends first, an op that is
// still queued is dropped, and an op that is in a transaction is completed without its caller.
func (eng *Engine) Submit(ctx context.Context, id ledger.PoolID, o Op) (Answer, error) {
	for {
		s, err := eng.locate(ctx, id, o.Begins)
		if err != nil {
			return Answer{}, err
		}
		answer, err := s.Do(ctx, o)
		if err != nil && o.Begins != nil {
			s.abandon()
		}
		if !errors.Is(err, ErrGone) {
			return answer, err
		}
	}
}

// Change submits an op on a block. ErrChanged: the pool is gone, and so is the block.
func (eng *Engine) Change(ctx context.Context, b ledger.Block, o Op) (answer Answer, err error) {
	answer, err = eng.Submit(ctx, b.Pool, o)
	if errors.Is(err, ledger.ErrUnknownPool) {
		err = fmt.Errorf("%w: %w", ledger.ErrChanged, err)
	}
	return answer, err
}

// Do gives an op on the space to the writer, and waits for the answer, as Submit does.
func (s *Space) Do(ctx context.Context, o Op) (Answer, error) {
	c := &call{Op: o, space: s, done: make(chan struct{}), traced: NewTraced(ctx)}
	if err := s.Engine.Writer.enqueue(c); err != nil {
		return Answer{}, err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		c.finish(fmt.Errorf("waiting for the ledger: %w", context.Cause(ctx)))
		<-c.done // the call may have had its answer at the same moment
	}
	return c.result()
}

// enqueue puts a call into the queue, and starts the goroutine if it does not run.
func (w *writer) enqueue(c *call) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue.waiting(c.Lane) >= w.queueLimit {
		return ledger.ErrBusy
	}
	if !w.Working && !w.Spawn(w.work) {
		return ledger.ErrClosed
	}
	w.Working = true
	w.queue.push(c)
	return nil
}

// next returns the call whose turn it is; nil if there is none.
func (w *writer) next() *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue.peek()
}

// take removes the call that next has returned.
func (w *writer) take() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.pop()
}

// pass passes over a call that needs a transaction of its own, and over the later calls of its workspace, while a group
// of other calls is gathered. Otherwise each such call would end the group early, for all workspaces. It reports false
// for any other call.
func (w *writer) pass(c *call, g *group) bool {
	if !c.Alone || g.calls[0].Alone {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue.pass()
}

// resume gives the next turns to the calls that were passed over.
func (w *writer) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.resume()
}

// rests reports whether no call waits. Then the goroutine ends, and the next call starts another goroutine.
func (w *writer) rests() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Working = w.queue.size > 0
	return !w.Working
}

// work commits group after group until the queue is empty and the outcome of each transaction is known.
func (w *writer) work() {
	for {
		if err := w.settle(); err != nil {
			if !w.refuse(err) {
				return
			}
			w.rest(retrySettle)
			continue
		}
		g := w.gather()
		if len(g.calls) > 0 {
			w.commit(g)
		} else if w.rests() {
			return
		}
	}
}

// errFull says that the call needs the next group.
var errFull = errors.New("the group is full")

// errDropped says that nobody waits for the answer of the call.
var errDropped = errors.New("the caller has gone")

// gather plans the queued calls, in turn, until the transaction is full, or until a call would change or compare a key
// that another call changes or compares.
func (w *writer) gather() *group {
	g, only := newGroup(), w.refuted
	w.refuted = false
	for c := w.next(); c != nil; c = w.next() {
		if only && len(g.calls) > 0 && !c.again {
			break
		}
		err := w.join(c, g)
		if errors.Is(err, errFull) {
			if w.pass(c, g) {
				continue
			}
			break
		}
		w.take()
		if err != nil {
			c.finish(err)
			continue
		}
		g.calls = append(g.calls, c) // also if its caller has gone meanwhile: the group has taken room for it
	}
	w.resume()
	g.seal()
	return g
}

// join plans a call for a group. errFull: the call does not fit there. Any other error is the answer to the call.
func (w *writer) join(c *call, g *group) error {
	limit, others := int(w.Limit.Load())-len(g.spaces), len(g.calls) > 0 // each space puts its head
	if others && (c.Alone || g.calls[0].Alone || g.size.ops()+callOps > limit) {
		return errFull
	}
	s := c.space
	s.Lock()
	defer s.Unlock()
	if err := s.Unfit(); err != nil {
		return err
	}
	p, joined := g.spaces[s.ID]
	if !joined {
		limit--
		s.expect(c.Begins)
		p = newPart(s)
		defer func() {
			if g.spaces[s.ID] != p {
				s.Discard()
			}
		}()
	}
	if c.gone.Load() {
		return errDropped
	}
	span := c.traced.Placing()
	plan, err := c.Plan(s.View(p.nextHead))
	EndSpan(span, err)
	if err != nil {
		return err
	}
	sum := g.size.plus(sizeOf(plan.Changes))
	if others && (sum.ops() > limit || sum.bytes > MaxGroupBytes) || !g.admits(p, plan.Changes) {
		return errFull
	}
	g.add(p, plan.Changes)
	c.plan, g.size = plan, sum
	return nil
}

// refuse answers all calls with err. The goroutine keeps the pending group, even if the queue is empty: until the group
// is settled, memory may differ from the ledger. If the engine is closed, refuse reports false, and the goroutine ends.
// Then nobody settles the group.
func (w *writer) refuse(err error) bool {
	sent := err
	closed := w.Ctx.Err() != nil
	if closed {
		err, sent = ledger.ErrClosed, ledger.ErrClosed
		if w.pending.sent != nil {
			sent = fmt.Errorf("%w: %w", ledger.ErrClosed, errUncertain)
		}
	}
	for _, c := range w.pending.group.calls {
		c.finish(sent)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := w.queue.peek(); c != nil; c = w.queue.peek() {
		w.queue.pop()
		c.finish(err)
	}
	w.Working = !closed
	return w.Working
}
