package allocator

import (
	"log/slog"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/prometheus/client_golang/prometheus"
)

// Options configure an Allocator. The zero value is ready to use.
type Options struct {
	// Prefix of all keys. Default "/ipam/v1".
	Prefix string
	// Address is where the process answers; see Reader.Leader. Empty: nowhere.
	Address string
	// MaxTxnOps is the etcd server's --max-txn-ops, which bounds how many
	// requests share one transaction. Default 128, which is etcd's default.
	MaxTxnOps int
	// QueueLimit bounds how many requests of one workspace may be queued; further ones get ErrBusy. Default 8192.
	QueueLimit int
	// Origin replaces the origin in the ledger: see Recovery.Origin. Empty: the origin stays.
	Origin string
	// HoldTime is how long room is held for a waiting claim that was woken for
	// it. Default 10 s.
	HoldTime time.Duration
	// Frozen: every pool begins frozen in this Allocator. Nothing is allocated from the pool's space before Trust. It is
	// for callers that publish their blocks, and so can tell a ledger that was lost or restored from a whole one. Existing
	// blocks can be found, changed, adopted and released meanwhile.
	Frozen bool
	// Wake is called when there is room for a waiting claim, which should Bind again soon. It must not block. Default: no
	// call.
	Wake func(ledger.Holder)
	// Cooldown returns how long a block that is about to be freed cools; 0 or less: it is free at once. With an error the
	// block is not freed, and the caller of the release gets the error. Default: no block cools.
	Cooldown func(ledger.Block) (time.Duration, error)
	// History is how long the ledger keeps a tenure after its end. 0: it records none, and deletes
	// those that it has.
	History time.Duration
	// MaxHistory is how many ended tenures the ledger keeps at most; the oldest are deleted first. 0: there is no limit.
	// Every few minutes, the Allocator deletes tenures that are too old or too many.
	MaxHistory int
	// Changed is called with the IDs of the pools of a space whose usage or state has changed, and with the view of all
	// pools. It must not block, nor keep the list. Default: no call.
	Changed func(Pools, ...ledger.PoolID)
	// Retired is called when a pool has left the ledger: another pool that was refused because of it may be registered
	// now. It may be called more than once for a pool. It must not block. Default: no call.
	Retired func(ledger.Pool)
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Registerer receives the allocator's metrics. Default: none.
	Registerer prometheus.Registerer
}
