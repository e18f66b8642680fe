package allocator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// retryWatch is the pause before a watch that was cut off is started again.
const retryWatch = 250 * time.Millisecond

// follow keeps memory in step with the ledger until the Allocator is closed.
func (a *Allocator) follow() {
	ctx := clientv3.WithRequireLeader(a.ctx)
	for {
		err := a.stream(ctx)
		if a.ctx.Err() != nil {
			return
		}
		a.health.setWatch(fmt.Errorf("watch the ledger: %w", a.unavailable(err)))
		a.options.Logger.Warn("the watch on the ledger was cut off", "error", err)
		select {
		case <-time.After(retryWatch):
		case <-a.ctx.Done():
			return
		}
		if is(err, rpctypes.ErrCompacted) || errors.Is(err, errReread) {
			a.reload()
		}
	}
}

// reload reads the whole ledger again, after the watch has missed something.
func (a *Allocator) reload() {
	if err := a.load(a.ctx); err != nil && a.ctx.Err() == nil {
		a.health.setWatch(fmt.Errorf("read the ledger again: %w", err))
		a.options.Logger.Warn("cannot read the ledger again yet", "error", err)
	}
}

// stream applies what the watch delivers, from where memory is, until it ends.
func (a *Allocator) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := a.client.Watch(ctx, string(a.keys)+"/", clientv3.WithPrefix(), clientv3.WithRev(a.watched.get()+1), clientv3.WithCreatedNotify())
	for resp := range watch {
		if err := resp.Err(); err != nil {
			return err
		}
		a.health.setWatch(nil)
		if err := a.follows(resp.Events); err != nil {
			return err
		}
		if resp.IsProgressNotify() {
			a.watched.advance(resp.Header.Revision)
		}
	}
	return errors.New("the watch was closed")
}

// follows applies events, one revision at a time.
func (a *Allocator) follows(events []*clientv3.Event) error {
	for len(events) > 0 {
		revision, n := events[0].Kv.ModRevision, 1
		for n < len(events) && events[n].Kv.ModRevision == revision {
			n++
		}
		if err := a.apply(revision, events[:n]); err != nil {
			return err
		}
		a.watched.advance(revision)
		events = events[n:]
	}
	return nil
}
