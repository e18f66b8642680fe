package allocator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	defaultMaxTxnOps  = 128
	defaultQueueLimit = 8192
	defaultHoldTime   = 10 * time.Second
)

// Allocator allocates blocks of registered pools, and records them in etcd. In memory
// it has the free space of every pool, and the owner of each block. The records of blocks are read from the ledger.
//
// A ledger has one Allocator, which has taken the office of its writer. When another Allocator takes the office, this
// one fails with ErrDeposed. All methods are safe for concurrent use. Make one with Open, end it with Close.
type Allocator struct {
	engine  *engine.Engine
	store   *store.Store
	keys    store.Keys   // of the store
	table   *space.Table // of the engine
	slices  store.Slices // of the store
	terms   terms        // by which blocks are freed
	options Options
}

// Open takes the office of the ledger's writer from the process that has it, and reads the ledger into memory. No other
// process changes the ledger until another Allocator takes the office. The caller closes the client, after the
// Allocator.
func Open(ctx context.Context, client *clientv3.Client, options Options) (*Allocator, error) {
	return open(ctx, client, options, engine.RealHooks())
}

func open(ctx context.Context, client *clientv3.Client, options Options, hooks engine.Hooks) (*Allocator, error) {
	options = options.withDefaults()
	a := &Allocator{store: store.NewStore(client, options.Prefix), options: options}
	a.engine = engine.New(ctx, a.store, engine.Settings{
		Address: options.Address,
		Frozen:  options.Frozen, HoldTime: options.HoldTime, MaxTxnOps: options.MaxTxnOps, QueueLimit: options.QueueLimit,
		Logger: options.Logger, Tell: a.tell, Hooks: hooks,
		History: engine.History{Keep: options.History, Max: options.MaxHistory},
	})
	a.keys, a.table, a.slices = a.store.Keys, a.engine.Table, store.Slices{Store: a.store}
	a.terms = terms{options: options, engine: a.engine}
	if err := a.engine.Start(ctx, options.Registerer); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", a.keys, err), a.Close())
	}
	if err := a.Recovery().replaceOrigin(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", a.keys, err), a.Close())
	}
	return a, nil
}

func (o Options) withDefaults() Options {
	o.MaxTxnOps = cmp.Or(o.MaxTxnOps, defaultMaxTxnOps)
	o.QueueLimit = cmp.Or(o.QueueLimit, defaultQueueLimit)
	o.HoldTime = cmp.Or(o.HoldTime, defaultHoldTime)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Wake == nil {
		o.Wake = func(ledger.Holder) {}
	}
	if o.Cooldown == nil {
		o.Cooldown = func(ledger.Block) (time.Duration, error) { return 0, nil }
	}
	if o.Changed == nil {
		o.Changed = func(Pools, ...ledger.PoolID) {}
	}
	if o.Retired == nil {
		o.Retired = func(ledger.Pool) {}
	}
	return o
}

// Close refuses queued requests with ErrClosed, and waits for the transactions in flight and for all goroutines. If the
// outcome of a transaction is not known then, the transaction may have been committed, and its callers get ErrClosed
// and ErrUnavailable. Afterwards every call that would ask the ledger fails with ErrClosed at once. Close always
// returns nil. A second call does nothing.
func (a *Allocator) Close() error {
	a.engine.Close()
	return nil
}

// Healthy returns nil while the Allocator has the ledger and the last transaction went through, otherwise the fault.
func (a *Allocator) Healthy() error { return a.engine.Healthy() }

// InOffice confirms, by a transaction, that this process is still the writer of the ledger. Then the memory of the
// process is current. It fails with ErrDeposed if another process has become the writer, and with ErrUnavailable if
// etcd does not answer.
func (a *Allocator) InOffice(ctx context.Context) error {
	return a.engine.InOffice(ctx)
}

// Failed returns a channel that is closed when the Allocator cannot go on. Err then says why. End the process, or open
// another Allocator.
func (a *Allocator) Failed() <-chan struct{} { return a.engine.Health.Failed }

// Err returns why the Allocator failed; nil if it did not.
func (a *Allocator) Err() error {
	return a.engine.Health.Err()
}

// Revision returns the revision of etcd up to which memory has all blocks. Each block that memory lacks has a later
// revision.
func (a *Allocator) Revision() int64 { return a.engine.Revision.Load() }
