package allocator

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/prometheus/client_golang/prometheus"
)

// engine writes one ledger, and keeps memory in step with it: a worker for each space commits
// what operations ask for, and the watch brings what others have written. It is safe for
// concurrent use.
type engine struct {
	store      *store.Store
	keys       store.Keys // those of the store
	table      *space.Table
	hooks      hooks
	metrics    *metrics
	logger     *slog.Logger
	queueLimit int
	tell       func(space.News) // called with no lock held

	health     health
	id         string          // of the ledger
	ctx        context.Context // ends when close begins
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
	watched    *mark        // all that the ledger holds up to here is in memory
	leads      atomic.Int32 // a leadership
	limit      atomic.Int64 // operations in a transaction; shrinks when etcd allows fewer

	// mu guards the spaces. It is taken after a space's lock, never before,
	// and held for memory work only.
	mu     sync.RWMutex
	closed bool
	spaces map[SpaceID]*worker
}

// settings are what an engine is made with. All are required.
type settings struct {
	Frozen     bool // pools begin frozen
	HoldTime   time.Duration
	MaxTxnOps  int
	QueueLimit int
	Logger     *slog.Logger
	Tell       func(space.News) // called with no lock held
	Hooks      hooks
}

// newEngine makes an engine that has read nothing yet. Close it in any case.
func newEngine(ctx context.Context, st *store.Store, set settings) *engine {
	st.Timeout = set.Hooks.timeout
	eng := &engine{
		store: st, keys: st.Keys, table: space.NewTable(), hooks: set.Hooks, logger: set.Logger, queueLimit: set.QueueLimit, tell: set.Tell,
		watched: newMark(), spaces: map[SpaceID]*worker{}, health: health{failed: make(chan struct{})},
	}
	eng.table.Writer, eng.table.Frozen, eng.table.HoldTime, eng.table.Logger = rand.Text(), set.Frozen, set.HoldTime, set.Logger
	eng.table.Now, eng.table.After = func() time.Time { return eng.hooks.now() }, eng.whileOpen
	eng.metrics = newMetrics(st.Client, eng.counts())
	eng.limit.Store(int64(set.MaxTxnOps))
	eng.ctx, eng.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return eng
}

// start reads the ledger, and follows it from there.
func (eng *engine) start(ctx context.Context, r prometheus.Registerer) (err error) {
	if eng.id, err = eng.store.ID(ctx); err != nil {
		return err
	}
	if err := eng.load(ctx); err != nil {
		return err
	}
	if err := eng.metrics.register(r); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	eng.spawn(eng.follow)
	eng.spawn(eng.guard)
	return nil
}

// close refuses what is queued with ErrClosed, and waits for the transactions in flight and
// for all goroutines.
func (eng *engine) close() {
	eng.mu.Lock()
	eng.closed = true
	eng.mu.Unlock()
	eng.cancel()
	eng.goroutines.Wait()
	eng.metrics.unregister()
}

// err is why the engine failed for good; nil if it did not.
func (eng *engine) err() error {
	eng.health.mu.Lock()
	defer eng.health.mu.Unlock()
	return eng.health.fatal
}

// healthy returns nil when the ledger is being followed and the last
// transaction went through, otherwise what is wrong.
func (eng *engine) healthy() error {
	if eng.ctx.Err() != nil {
		return ErrClosed
	}
	return eng.health.err()
}

// spawn runs f in a goroutine that Close waits for. It reports false, and does
// nothing, once Close has begun.
func (eng *engine) spawn(f func()) bool {
	eng.mu.Lock()
	defer eng.mu.Unlock()
	if eng.closed {
		return false
	}
	eng.goroutines.Go(f)
	return true
}

// whileOpen calls a function after some time, unless the Allocator is closed by then.
func (eng *engine) whileOpen(d time.Duration, f func()) (stop func() bool) {
	return eng.hooks.after(d, func() {
		if eng.ctx.Err() == nil {
			f()
		}
	})
}

// hooks are the seams for tests. The zero value is not usable; see realHooks.
type hooks struct {
	timeout time.Duration // of one request to etcd, and of one wait for the watch
	probe   time.Duration // pause between two looks whether the ledger is the same
	now     func() time.Time
	after   func(time.Duration, func()) (stop func() bool)
	// beforeCommit and afterCommit stand around the transaction of a group.
	// An error takes the place of the transaction's outcome.
	beforeCommit, afterCommit func(SpaceID) error
}

func realHooks() hooks {
	pass := func(SpaceID) error { return nil }
	return hooks{
		timeout:      store.DefaultTimeout,
		probe:        probeEvery,
		now:          time.Now,
		after:        func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop },
		beforeCommit: pass,
		afterCommit:  pass,
	}
}
