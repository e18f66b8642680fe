package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/prometheus/client_golang/prometheus"
)

// New makes an engine that has read nothing yet. Close it, also if Start fails.
func New(ctx context.Context, st *store.Store, set Settings) *Engine {
	st.Timeout = set.Hooks.Timeout
	eng := &Engine{
		store: st, Keys: st.Keys, Table: space.NewTable(), Hooks: set.Hooks, logger: set.Logger, queueLimit: set.QueueLimit, leads: set.Leads, address: set.Address, history: set.History, tell: set.Tell, writer: rand.Text(),
		Health: health{Failed: make(chan struct{}), logger: set.Logger},
	}
	eng.Watched = &watched{store: st, health: &eng.Health, writer: eng.writer, grown: make(chan struct{})}
	eng.Table.Frozen, eng.Table.HoldTime, eng.Table.Logger = set.Frozen, set.HoldTime, set.Logger
	eng.Table.Now = func() time.Time { return eng.Hooks.Now() }
	eng.Table.After = func(d time.Duration, f func()) func() bool { return eng.Hooks.After(d, eng.whileOpen(f)) }
	eng.Spaces = spaces{workers: map[ledger.SpaceID]*Worker{}, open: eng.newWorker}
	eng.Metrics = newMetrics(eng)
	eng.Limit.Store(int64(set.MaxTxnOps))
	eng.Ctx, eng.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	st.Closed, st.Deposed = eng.Ctx.Done(), eng.Health.deposed
	return eng
}

// Start takes the office if the engine leads, reads the ledger, and follows it from there.
func (eng *Engine) Start(ctx context.Context, r prometheus.Registerer) (err error) {
	if eng.leads {
		if err := eng.takeOffice(ctx); err != nil {
			return err
		}
	}
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
	if eng.leads {
		eng.Spawn(eng.keepHistory)
	}
	return nil
}

// Close refuses queued requests with ErrClosed, and waits for the transactions in flight and
// for all goroutines.
func (eng *Engine) Close() {
	eng.end()
	eng.Metrics.unregister()
}

// RealHooks returns the hooks of a program: real time, and nothing around a transaction.
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

func (eng *Engine) newWorker(id ledger.SpaceID) *Worker {
	w := &Worker{Space: space.NewSpace(eng.Table, id), Engine: eng, Keys: eng.Keys.Space(id)}
	w.Unlocking, w.Unlocked = w.updateAlarm, eng.tell
	return w
}
