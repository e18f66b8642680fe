package engine

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Engine is the one writer of a ledger. It reads the ledger into memory once, when it has taken the office. Afterwards,
// only the writer's commits change memory. It is safe for concurrent use.
type Engine struct {
	store      *store.Store
	Keys       store.Keys // those of the store
	Table      *space.Table
	Hooks      Hooks
	Metrics    *metrics
	logger     *slog.Logger
	queueLimit int
	history    History
	address    string           // where this process answers
	tell       func(space.News) // called with no lock held

	Health health
	ID     string       // of the ledger
	Limit  atomic.Int64 // operations in a transaction; shrinks when etcd allows fewer
	Spaces spaces
	Writer writer
	// Revision is the revision of the last transaction that memory has.
	Revision atomic.Int64
	lifetime
}

// Settings configure an Engine. All are required.
type Settings struct {
	Address    string // where this process answers
	Frozen     bool   // pools begin frozen
	HoldTime   time.Duration
	MaxTxnOps  int
	QueueLimit int
	Logger     *slog.Logger
	Tell       func(space.News) // called with no lock held
	Hooks      Hooks
	History    History
}

// Healthy returns nil while this process has the ledger and the last transaction went through, otherwise the fault.
func (eng *Engine) Healthy() error {
	if eng.Ctx.Err() != nil {
		return ledger.ErrClosed
	}
	return eng.Health.all()
}

// Hooks are the parts that a test may replace. The zero value is not usable; see [RealHooks].
type Hooks struct {
	Timeout time.Duration // of one request to etcd
	Now     func() time.Time
	After   func(time.Duration, func()) (stop func() bool)
	// BeforeCommit and AfterCommit are called around the transaction of a group.
	// Their error replaces the transaction's outcome.
	BeforeCommit, AfterCommit func(ledger.SpaceID) error
}

// History says which ended tenures are kept.
type History struct {
	Keep time.Duration // how long; 0: none is kept
	Max  int           // how many; 0: there is no limit
}
