package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// call is one request in the queue of a space.
type call struct {
	op     Op
	done   chan struct{} // closed when err is final
	err    error
	traced *traced
	single bool // it has failed together with others, and is tried alone; only the worker uses it

	// The space's lock guards these.
	gone bool // the caller has its answer, or does not wait any more
}

// finish gives the caller its answer. A caller that has one already keeps it.
func (c *call) finish(err error) {
	if c.gone {
		return
	}
	c.gone = true
	c.err = err
	close(c.done)
}

// queue holds the calls of a space. Each workspace has its own lane, and lanes take
// turns: a storm from one workspace delays the calls of another by one call each.
// The zero value is empty. The space's lock guards it.
type queue struct {
	lanes map[ledger.ClusterName]*lane
	turns []*lane // lanes that hold calls; the first is next
	Size  int
}

type lane struct {
	Cluster ledger.ClusterName
	calls   []*call
}

func (q *queue) push(c *call) {
	l := q.lane(c.op.Cluster())
	l.calls = append(l.calls, c)
	q.Size++
}

// unpop puts back calls that were popped, in their order, ahead of all others in
// their lanes.
func (q *queue) unpop(calls []*call) {
	back := map[ledger.ClusterName][]*call{}
	for _, c := range calls {
		cluster := c.op.Cluster()
		back[cluster] = append(back[cluster], c)
	}
	for cluster, calls := range back {
		l := q.lane(cluster)
		l.calls = append(calls, l.calls...)
	}
	q.Size += len(calls)
}

// lane returns the lane of a cluster. The caller must put a call into it.
func (q *queue) lane(cluster ledger.ClusterName) *lane {
	if l, ok := q.lanes[cluster]; ok {
		return l
	}
	if q.lanes == nil {
		q.lanes = map[ledger.ClusterName]*lane{}
	}
	l := &lane{Cluster: cluster}
	q.lanes[cluster] = l
	q.turns = append(q.turns, l)
	return l
}

// peek returns the next call; nil if there is none.
func (q *queue) peek() *call {
	if q.Size == 0 {
		return nil
	}
	return q.turns[0].calls[0]
}

// pop removes the call that peek returned.
func (q *queue) pop() {
	l := q.turns[0]
	l.calls = l.calls[1:]
	q.turns = q.turns[1:]
	q.Size--
	if len(l.calls) == 0 {
		delete(q.lanes, l.Cluster)
		return
	}
	q.turns = append(q.turns, l)
}

// ErrGone: the space was retired before the call was planned.
var ErrGone = errors.New("space is gone")

// Submit gives an op to the worker of the pool's space, and waits for the answer.
// If ctx ends first, an op that is still queued is dropped, and one that is in a
// transaction is completed without its caller.
func (eng *Engine) Submit(ctx context.Context, id ledger.PoolID, o Op) error {
	for {
		s, err := eng.Locate(ctx, id)
		if err != nil {
			return err
		}
		if err := s.Do(ctx, o); !errors.Is(err, ErrGone) {
			return err
		}
		if err := eng.Confirm(ctx, id); err != nil {
			return err
		}
	}
}

// Change is Submit of an op on a block, once memory has the block's last change. ErrChanged: the
// pool is gone, and the block with it.
func (eng *Engine) Change(ctx context.Context, b ledger.Block, o Op) error {
	s, err := eng.Locate(ctx, b.Pool)
	if err == nil {
		var known int64
		if s.Read(func() { known = s.Known }); known < b.Revision {
			err = eng.Await(ctx, b.Revision)
		}
	}
	if err == nil {
		err = eng.Submit(ctx, b.Pool, o)
	}
	if errors.Is(err, ledger.ErrUnknownPool) {
		return fmt.Errorf("%w: %w", ledger.ErrChanged, err)
	}
	return err
}

// Do gives an op to the space's worker, and waits for the answer, as Submit does.
func (s *Worker) Do(ctx context.Context, o Op) error {
	c := &call{op: o, done: make(chan struct{}), traced: NewTraced(ctx)}
	if err := s.enqueue(c); err != nil {
		return err
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	s.Lock()
	defer s.Unlock()
	c.finish(fmt.Errorf("waiting for the ledger: %w", context.Cause(ctx)))
	return c.err
}

// enqueue puts a call into the queue, and starts a worker if there is none.
func (s *Worker) enqueue(c *call) error {
	s.Lock()
	defer s.Unlock()
	if s.Queue.Size >= s.Engine.queueLimit {
		return ledger.ErrBusy
	}
	if !s.Working && !s.Engine.Spawn(s.work) {
		return ledger.ErrClosed
	}
	s.Working = true
	s.Queue.push(c)
	return nil
}
