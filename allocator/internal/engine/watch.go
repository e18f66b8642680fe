package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// retryWatch is the pause before the watch is started again.
const retryWatch = 250 * time.Millisecond

// follow keeps memory in step with the ledger until the Allocator is closed.
func (f follower) follow() {
	ctx := f.Watched.ownStream(f.Ctx)
	for {
		err := f.stream(ctx)
		if f.Ctx.Err() != nil {
			return
		}
		f.Health.setWatch(fmt.Errorf("watch the ledger: %w", f.store.Unavailable(err)))
		f.logger.Warn("the watch on the ledger was cut off", "error", err)
		f.rest(retryWatch)
		if store.Compacted(err) || errors.Is(err, errReread) {
			f.reload()
		}
	}
}

// reload reads the whole ledger again, after the watch has missed something.
func (f follower) reload() {
	if err := f.load(f.Ctx); err != nil && f.Ctx.Err() == nil {
		f.Health.setWatch(fmt.Errorf("read the ledger again: %w", err))
		f.logger.Warn("cannot read the ledger again yet", "error", err)
	}
}

// stale reports whether a space is to be read again.
func (f follower) stale() bool {
	return f.Spaces.Count(func(w *Worker) int {
		if w.Stale {
			return 1
		}
		return 0
	}) > 0
}

// stream applies what the watch brings, from the revision of memory on, until the watch ends. While a space is
// stale it applies nothing: no event comes on top of a reading of the ledger that has failed.
func (f follower) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.Watched.end.Store(&cancel)
	if f.stale() {
		return errReread
	}
	for batch, err := range f.store.Watch(ctx, f.Watched.Get()) {
		if errors.Is(context.Cause(ctx), errReread) {
			return errReread
		}
		if err != nil {
			return err
		}
		f.Health.setWatch(nil)
		if err := f.apply(batch.Revision, batch.Entries); err != nil {
			return err
		}
		f.Watched.advance(batch.Revision)
	}
	return nil // never: the watch ends with an error
}
