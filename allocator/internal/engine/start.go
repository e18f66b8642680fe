package engine

import (
	"context"
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
		store: st, Keys: st.Keys, Table: space.NewTable(), Hooks: set.Hooks, logger: set.Logger,
		queueLimit: set.QueueLimit, address: set.Address, history: set.History, tell: set.Tell,
		Health: health{Failed: make(chan struct{}), logger: set.Logger},
	}
	eng.Table.Frozen, eng.Table.HoldTime, eng.Table.Logger = set.Frozen, set.HoldTime, set.Logger
	eng.Table.Now = func() time.Time { return eng.Hooks.Now() }
	eng.Table.After = func(d time.Duration, f func()) func() bool { return eng.Hooks.After(d, eng.whileOpen(f)) }
	eng.Spaces = spaces{is: map[ledger.SpaceID]*Space{}, open: eng.newSpace}
	eng.Writer.Engine = eng
	eng.Metrics = newMetrics(eng)
	eng.Limit.Store(int64(set.MaxTxnOps))
	eng.Ctx, eng.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	st.Closed, st.Lost = eng.Ctx.Done(), func(why error) { _ = eng.Health.end(why) }
	return eng
}

// Start takes the office of the ledger's writer, and then reads the ledger.
func (eng *Engine) Start(ctx context.Context, r prometheus.Registerer) (err error) {
	if eng.ID, err = eng.store.ID(ctx); err != nil {
		return err
	}
	if eng.Writer.office, err = eng.takeOffice(ctx); err != nil {
		return err
	}
	if err := eng.load(ctx); err != nil {
		return err
	}
	if err := eng.Metrics.register(r); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	eng.Spawn(eng.keepHistory)
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
		Now:          time.Now,
		After:        func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop },
		BeforeCommit: pass,
		AfterCommit:  pass,
	}
}

func (eng *Engine) newSpace(id ledger.SpaceID) *Space {
	s := &Space{Space: space.NewSpace(eng.Table, id), Engine: eng, Keys: eng.Keys.Space(id)}
	s.Unlocking, s.Unlocked = s.updateAlarm, eng.tell
	return s
}
