package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Submit gives an op to the worker of the pool's space, and waits for the answer.
// If ctx ends first, an op that is still queued is dropped, and one that is in a
// transaction is completed without its caller.
func (eng *Engine) Submit(ctx context.Context, id ledger.PoolID, o Op) (Answer, error) {
	for {
		s, err := eng.Locate(ctx, id)
		if err != nil {
			return Answer{}, err
		}
		answer, err := s.Do(ctx, o)
		if !errors.Is(err, ErrGone) {
			return answer, err
		}
		if err := eng.Confirm(ctx, id); err != nil {
			return Answer{}, err
		}
	}
}

// Change submits an op on a block, once memory has the block's last change. ErrChanged: the
// pool is gone, and the block with it.
func (eng *Engine) Change(ctx context.Context, b ledger.Block, o Op) (answer Answer, err error) {
	s, err := eng.Locate(ctx, b.Pool)
	if err == nil {
		var known int64
		if s.Read(func() { known = s.Known }); known < b.Revision {
			err = eng.Await(ctx, b.Revision)
		}
	}
	if err == nil {
		answer, err = eng.Submit(ctx, b.Pool, o)
	}
	if errors.Is(err, ledger.ErrUnknownPool) {
		err = fmt.Errorf("%w: %w", ledger.ErrChanged, err)
	}
	return answer, err
}

// Do gives an op to the space's worker, and waits for the answer, as Submit does.
func (s *Worker) Do(ctx context.Context, o Op) (Answer, error) {
	c := &call{Op: o, done: make(chan struct{}), traced: NewTraced(ctx)}
	if err := s.enqueue(c); err != nil {
		return Answer{}, err
	}
	select {
	case <-c.done:
		return c.result()
	case <-ctx.Done():
	}
	s.Lock()
	defer s.Unlock()
	c.finish(fmt.Errorf("waiting for the ledger: %w", context.Cause(ctx)))
	return c.result()
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
