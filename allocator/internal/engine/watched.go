package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"google.golang.org/grpc/metadata"
)

// progressEvery is the pause between two requests for the progress of the watch. etcd
// does not answer while the watch has to catch up.
const progressEvery = 50 * time.Millisecond

// watched is how far the watch has come: memory has all changes up to a revision, which only grows. Goroutines can wait
// for it. It is safe for concurrent use.
type watched struct {
	store  *store.Store
	health *health
	writer string                                  // the name of this process in the ledger
	end    atomic.Pointer[context.CancelCauseFunc] // ends the watch; nil before the first one

	mu       sync.Mutex
	revision int64
	grown    chan struct{} // closed, and replaced, when revision grows
}

// ownStream returns the context of the watch. By its metadata the client knows a stream to etcd, which watches share. etcd
// tells all of a stream how far they are, and may mean those alone that were there before: a watch that begins on the stream would
// skip what it has not brought yet. So the watch has a stream to itself.
func (w *watched) ownStream(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader, "ipam-watch", w.writer))
}

// Get returns the revision.
func (w *watched) Get() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revision
}

func (w *watched) advance(revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if revision <= w.revision {
		return
	}
	w.revision = revision
	close(w.grown)
	w.grown = make(chan struct{})
}

// Wait returns when memory has reached the revision. ErrClosed: the watch has ended.
func (w *watched) Wait(ctx context.Context, revision int64) error {
	for {
		w.mu.Lock()
		reached, grown := w.revision >= revision, w.grown
		w.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-grown:
		case <-w.store.Closed:
			return ledger.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Await waits until the watch has brought a revision, which is one of a change in this ledger.
func (w *watched) Await(ctx context.Context, revision int64) error {
	bounded, cancel := context.WithTimeout(ctx, w.store.Timeout)
	defer cancel()
	err := w.Wait(bounded, revision)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return w.health.behind()
	}
	return err
}

// RequestProgress asks etcd for the revision that the watch has reached. The watch brings the answer.
func (w *watched) RequestProgress(ctx context.Context) error {
	return w.store.Client.RequestProgress(w.ownStream(ctx))
}

// AwaitAll waits until memory has all changes up to a revision, which may be that of a change
// outside of this ledger.
func (w *watched) AwaitAll(ctx context.Context, revision int64) error {
	bounded, cancel := context.WithTimeout(ctx, w.store.Timeout)
	defer cancel()
	for w.Get() < revision {
		if err := w.store.CheckOpen(); err != nil {
			return err
		}
		if err := w.RequestProgress(bounded); err != nil && ctx.Err() == nil {
			return w.store.Unavailable(err)
		}
		short, cancel := context.WithTimeout(bounded, progressEvery)
		err := w.Wait(short, revision)
		cancel()
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && bounded.Err() != nil {
			return w.health.behind()
		}
	}
	return nil
}

// reread ends the watch, so that the ledger is read again. Call it after a space was made stale.
func (w *watched) reread() {
	if end := w.end.Load(); end != nil {
		(*end)(errReread)
	}
}
