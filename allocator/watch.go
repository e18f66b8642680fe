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
func (eng *engine) follow() {
	ctx := clientv3.WithRequireLeader(eng.ctx)
	for {
		err := eng.stream(ctx)
		if eng.ctx.Err() != nil {
			return
		}
		eng.health.setWatch(fmt.Errorf("watch the ledger: %w", eng.store.Unavailable(err)))
		eng.logger.Warn("the watch on the ledger was cut off", "error", err)
		select {
		case <-time.After(retryWatch):
		case <-eng.ctx.Done():
			return
		}
		if store.Compacted(err) || errors.Is(err, errReread) {
			eng.reload()
		}
	}
}

// reload reads the whole ledger again, after the watch has missed something.
func (eng *engine) reload() {
	if err := eng.load(eng.ctx); err != nil && eng.ctx.Err() == nil {
		eng.health.setWatch(fmt.Errorf("read the ledger again: %w", err))
		eng.logger.Warn("cannot read the ledger again yet", "error", err)
	}
}

// stream applies what the watch delivers, from where memory is, until it ends.
func (eng *engine) stream(ctx context.Context) error {
	for batch, err := range eng.store.Watch(ctx, eng.watched.get()) {
		if err != nil {
			return err
		}
		eng.health.setWatch(nil)
		if err := eng.apply(batch.Revision, batch.Entries); err != nil {
			return err
		}
		eng.watched.advance(batch.Revision)
	}
	return nil // never: the watch ends with an error
}
