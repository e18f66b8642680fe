package engine

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
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
	Watched *watched
	leads   bool         // it has the office of the ledger's writer
	address string       // where it answers then
	Limit   atomic.Int64 // operations in a transaction; shrinks when etcd allows fewer
	Spaces  spaces
	lifetime
}

// Settings are what an engine is made with. All are required.
type Settings struct {
	Leads      bool   // Start takes the office of the ledger's writer
	Address    string // where it answers then
	Frozen     bool   // pools begin frozen
	HoldTime   time.Duration
	MaxTxnOps  int
	QueueLimit int
	Logger     *slog.Logger
	Tell       func(space.News) // called with no lock held
	Hooks      Hooks
	History    History
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

// History says which of the tenures that have ended are kept.
type History struct {
	Keep time.Duration // 0: nothing
	Max  int           // 0: as many as there are
}
