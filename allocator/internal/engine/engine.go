package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/prometheus/client_golang/prometheus"
)

// Engine writes one ledger, and keeps memory in step with it. A worker for each space commits
// operations, and the watch brings the changes of other writers. It is safe for concurrent use.
type Engine struct {
	store      *store.Store
	Keys       store.Keys // those of the store
	Table      *space.Table
	Hooks      Hooks
	Metrics    *metrics
	logger     *slog.Logger
	queueLimit int
	history    History
	writer     string           // the name of this process in the ledger
	groups     atomic.Int64     // that it has begun, by which it names their transactions
	tell       func(space.News) // called with no lock held

	Health  health
	ID      string // of the ledger
	Watched *mark  // memory has all changes up to this revision
	leads   atomic.Bool
	leader  atomic.Pointer[string] // where the leader answers
	Limit   atomic.Int64           // operations in a transaction; shrinks when etcd allows fewer
	Spaces  spaces
	// endStream ends the watch; nil before the first one.
	endStream atomic.Pointer[context.CancelCauseFunc]
	lifetime
}

// Settings are what an engine is made with. All are required.
type Settings struct {
	Frozen     bool // pools begin frozen
	HoldTime   time.Duration
	MaxTxnOps  int
	QueueLimit int
	Logger     *slog.Logger
	Tell       func(space.News) // called with no lock held
	Hooks      Hooks
	History    History
}

// New makes an engine that has read nothing yet. Close it, also if Start fails.
func New(ctx context.Context, st *store.Store, set Settings) *Engine {
	st.Timeout = set.Hooks.Timeout
	eng := &Engine{
		store: st, Keys: st.Keys, Table: space.NewTable(), Hooks: set.Hooks, logger: set.Logger, queueLimit: set.QueueLimit, history: set.History, tell: set.Tell, writer: rand.Text(),
		Watched: newMark(), Health: health{Failed: make(chan struct{}), logger: set.Logger},
	}
	eng.Table.Frozen, eng.Table.HoldTime, eng.Table.Logger = set.Frozen, set.HoldTime, set.Logger
	eng.Table.Now = func() time.Time { return eng.Hooks.Now() }
	eng.Table.After = func(d time.Duration, f func()) func() bool { return eng.Hooks.After(d, eng.whileOpen(f)) }
	eng.Spaces = spaces{workers: map[ledger.SpaceID]*Worker{}, open: eng.newWorker}
	eng.Metrics = newMetrics(eng)
	eng.Limit.Store(int64(set.MaxTxnOps))
	eng.Ctx, eng.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return eng
}

// Start reads the ledger, and follows it from there.
func (eng *Engine) Start(ctx context.Context, r prometheus.Registerer) (err error) {
	if eng.ID, err = eng.store.ID(ctx); err != nil {
		return err
	}
	follow := follower{eng}
	if err := follow.load(ctx); err != nil {
		return err
	}
	if err := eng.Metrics.register(r); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	eng.Spawn(follow.follow)
	eng.Spawn(Guard{eng}.run)
	eng.Spawn(eng.keepHistory)
	return nil
}

// Close refuses queued requests with ErrClosed, and waits for the transactions in flight and
// for all goroutines.
func (eng *Engine) Close() {
	eng.end()
	eng.Metrics.unregister()
}

// Healthy returns nil when the ledger is being followed and the last
// transaction went through, otherwise what is wrong.
func (eng *Engine) Healthy() error {
	if eng.Ctx.Err() != nil {
		return ledger.ErrClosed
	}
	return eng.Health.all()
}

// Hooks are what a test may replace. The zero value is not usable; see [RealHooks].
type Hooks struct {
	Timeout time.Duration // of one request to etcd, and of one wait for the watch
	Probe   time.Duration // pause between two checks that the ledger is the same
	Now     func() time.Time
	After   func(time.Duration, func()) (stop func() bool)
	// BeforeCommit and AfterCommit are called around the transaction of a group.
	// Their error replaces the transaction's outcome.
	BeforeCommit, AfterCommit func(ledger.SpaceID) error
}

// RealHooks are those of a program: real time, and nothing around a transaction.
func RealHooks() Hooks {
	pass := func(ledger.SpaceID) error { return nil }
	return Hooks{
		Timeout:      store.DefaultTimeout,
		Probe:        probeEvery,
		Now:          time.Now,
		After:        func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop },
		BeforeCommit: pass,
		AfterCommit:  pass,
	}
}
