package allocator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"

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
		a.health.setWatch(fmt.Errorf("watch the ledger: %w", a.store.Unavailable(err)))
		a.options.Logger.Warn("the watch on the ledger was cut off", "error", err)
		select {
		case <-time.After(retryWatch):
		case <-a.ctx.Done():
			return
		}
		if store.Compacted(err) || errors.Is(err, errReread) {
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
	for batch, err := range a.store.Watch(ctx, a.watched.get()) {
		if err != nil {
			return err
		}
		a.health.setWatch(nil)
		if err := a.apply(batch.Revision, batch.Entries); err != nil {
			return err
		}
		a.watched.advance(batch.Revision)
	}
	return nil // never: the watch ends with an error
}
