package allocator

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	defaultMaxTxnOps  = 128
	defaultQueueLimit = 8192
	defaultHoldTime   = 10 * time.Second
)

// Allocator hands out blocks of registered pools and records them in etcd. It
// holds the free space of every pool in memory, and whose each block is, kept current
// by one watch. The records of blocks are read from the ledger.
//
// Any number of Allocators, in any number of processes, may use one ledger.
// All methods are safe for concurrent use. Make one with Open, end it with Close.
type Allocator struct {
	store   *store.Store
	keys    store.Keys // those of the store
	options Options
	hooks   hooks
	metrics *metrics
	health  health
	id      string // of the ledger

	ctx        context.Context // ends when Close begins
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
	watched    *mark         // all that the ledger holds up to here is in memory
	registrar  chan struct{} // holds the token of the one registration under way
	leads      atomic.Int32  // a leadership
	limit      atomic.Int64  // operations in a transaction; shrinks when etcd allows fewer

	table *space.Table

	// mu guards the spaces. It is taken after a space's lock, never before,
	// and held for memory work only.
	mu     sync.RWMutex
	closed bool
	spaces map[SpaceID]*worker
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

// Open reads the ledger into memory and follows it from there. It returns when
// everything that was committed before the call is known. The client stays the
// caller's: close it after the Allocator.
func Open(ctx context.Context, client *clientv3.Client, options Options) (*Allocator, error) {
	return open(ctx, client, options, realHooks())
}

func open(ctx context.Context, client *clientv3.Client, options Options, hooks hooks) (*Allocator, error) {
	options = options.withDefaults()
	a := &Allocator{
		store: store.NewStore(client, options.Prefix), options: options,
		hooks: hooks, watched: newMark(), registrar: make(chan struct{}, 1),
		spaces: map[SpaceID]*worker{}, table: space.NewTable(), health: health{failed: make(chan struct{})},
	}
	a.keys, a.store.Timeout = a.store.Keys, hooks.timeout
	a.table.Writer, a.table.Frozen, a.table.HoldTime, a.table.Logger = rand.Text(), options.Frozen, options.HoldTime, options.Logger
	a.table.Now, a.table.After = func() time.Time { return a.hooks.now() }, a.whileOpen
	a.metrics = newMetrics(client, a.counts())
	a.limit.Store(int64(options.MaxTxnOps))
	a.ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := a.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", a.keys, err), a.Close())
	}
	return a, nil
}

func (a *Allocator) start(ctx context.Context) (err error) {
	if a.id, err = a.store.ID(ctx); err != nil {
		return err
	}
	if err := a.load(ctx); err != nil {
		return err
	}
	if err := a.metrics.register(a.options.Registerer); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	a.spawn(a.follow)
	a.spawn(a.guard)
	return nil
}

func (o Options) withDefaults() Options {
	o.MaxTxnOps = cmp.Or(o.MaxTxnOps, defaultMaxTxnOps)
	o.QueueLimit = cmp.Or(o.QueueLimit, defaultQueueLimit)
	o.HoldTime = cmp.Or(o.HoldTime, defaultHoldTime)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Wake == nil {
		o.Wake = func(Holder) {}
	}
	if o.Cooldown == nil {
		o.Cooldown = func(Block) (time.Duration, error) { return 0, nil }
	}
	if o.Changed == nil {
		o.Changed = func(...PoolID) {}
	}
	if o.Retired == nil {
		o.Retired = func(Pool) {}
	}
	return o
}

// whileOpen calls a function after some time, unless the Allocator is closed by then.
func (a *Allocator) whileOpen(d time.Duration, f func()) (stop func() bool) {
	return a.hooks.after(d, func() {
		if a.ctx.Err() == nil {
			f()
		}
	})
}

// Close refuses what is queued with ErrClosed, waits for the transactions in
// flight and for all goroutines, and always returns nil. A second call does nothing.
func (a *Allocator) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.goroutines.Wait()
	a.metrics.unregister()
	return nil
}

// LedgerID identifies the ledger: made once, at random, by whoever opened it
// first. Another ID means another ledger, and that nothing known about blocks
// holds any more.
func (a *Allocator) LedgerID() string { return a.id }

// Healthy returns nil when the ledger is being followed and the last
// transaction went through, otherwise what is wrong.
func (a *Allocator) Healthy() error {
	if a.ctx.Err() != nil {
		return ErrClosed
	}
	return a.health.err()
}

// Revision is one up to which all that the ledger held is known here. What was committed
// before has no greater one, once the watch has brought it.
func (a *Allocator) Revision() int64 { return a.watched.get() }

// spawn runs f in a goroutine that Close waits for. It reports false, and does
// nothing, once Close has begun.
func (a *Allocator) spawn(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.goroutines.Go(f)
	return true
}

// health remembers the last fault of the watch and of the transactions, and one that
// is for good.
type health struct {
	failed chan struct{} // closed when there is a fatal one

	mu                   sync.Mutex
	watch, commit, fatal error
}

// fail notes a fault that is for good. It reports false if there was one before.
func (h *health) fail(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fatal != nil {
		return false
	}
	h.fatal = err
	close(h.failed)
	return true
}

func (h *health) setWatch(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watch = err
}

func (h *health) setCommit(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit = err
}

func (h *health) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.fatal, h.watch, h.commit)
}

// mark is a revision that only grows and can be waited for.
type mark struct {
	mu       sync.Mutex
	revision int64
	grown    chan struct{} // closed, and replaced, when revision grows
}

func newMark() *mark { return &mark{grown: make(chan struct{})} }

func (m *mark) get() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision
}

func (m *mark) advance(revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if revision <= m.revision {
		return
	}
	m.revision = revision
	close(m.grown)
	m.grown = make(chan struct{})
}

// wait returns when the mark has reached the revision.
func (m *mark) wait(ctx context.Context, revision int64) error {
	for {
		m.mu.Lock()
		reached, grown := m.revision >= revision, m.grown
		m.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
