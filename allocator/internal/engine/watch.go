package engine

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
func (eng *Engine) follow() {
	ctx := clientv3.WithRequireLeader(eng.Ctx)
	for {
		err := eng.stream(ctx)
		if eng.Ctx.Err() != nil {
			return
		}
		eng.Health.setWatch(fmt.Errorf("watch the ledger: %w", eng.store.Unavailable(err)))
		eng.logger.Warn("the watch on the ledger was cut off", "error", err)
		select {
		case <-time.After(retryWatch):
		case <-eng.Ctx.Done():
			return
		}
		if store.Compacted(err) || errors.Is(err, errReread) {
			eng.reload()
		}
	}
}

// reload reads the whole ledger again, after the watch has missed something.
func (eng *Engine) reload() {
	if err := eng.load(eng.Ctx); err != nil && eng.Ctx.Err() == nil {
		eng.Health.setWatch(fmt.Errorf("read the ledger again: %w", err))
		eng.logger.Warn("cannot read the ledger again yet", "error", err)
	}
}

// stream applies what the watch delivers, from where memory is, until it ends.
func (eng *Engine) stream(ctx context.Context) error {
	for batch, err := range eng.store.Watch(ctx, eng.Watched.Get()) {
		if err != nil {
			return err
		}
		eng.Health.setWatch(nil)
		if err := eng.apply(batch.Revision, batch.Entries); err != nil {
			return err
		}
		eng.Watched.advance(batch.Revision)
	}
	return nil // never: the watch ends with an error
}
