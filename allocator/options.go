package allocator

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options configure an Allocator. The zero value is ready to use.
type Options struct {
	// Prefix of all keys. Default "/ipam/v1".
	Prefix string
	// MaxTxnOps is the etcd server's --max-txn-ops, which bounds how many
	// requests share one transaction. Default 128, which is etcd's own.
	MaxTxnOps int
	// QueueLimit bounds how many requests may be queued for one space;
	// beyond it Bind and Release answer ErrBusy. Default 8192.
	QueueLimit int
	// HoldTime is how long freed room is held for the waiting claim that it
	// was offered to. Default 10 s.
	HoldTime time.Duration
	// Frozen has every pool begin frozen in this Allocator: nothing is allocated from its
	// space before Trust. It is for callers that publish what they are given, and so can
	// tell a ledger that was lost or restored from one that is whole. Blocks that are
	// held are found, changed, adopted and released all the same.
	Frozen bool
	// Wake is called when room was found for a claim that waits: it should
	// Bind again soon. And when the block of a claim is in dispute no longer. It
	// must not block. Default: nobody is told.
	Wake func(Holder)
	// Cooldown says for how long a block that is freed is given to nobody; 0 or less: it is
	// free at once. It is asked as the block is about to be freed. An error keeps the block: the
	// caller gets it. Default: no block cools.
	Cooldown func(Block) (time.Duration, error)
	// History is how long the ledger keeps who had a block, after it was freed. 0: what is freed
	// leaves nothing behind, and what there is of a history is removed. All Allocators of a
	// ledger should have the same.
	History time.Duration
	// MaxHistory is how many such tenures it keeps at most; the oldest go first. 0: there is no
	// limit. Both are seen to by the Allocator that leads, every few minutes.
	MaxHistory int
	// Changed is called when the usage or state of pools of one space changed, with those
	// that one change concerns. It must not block, nor keep the list.
	Changed func(...PoolID)
	// Retired is called when a pool has left the ledger, by this Allocator or by another one:
	// a pool that it refused may be registered now. It may be called more than once for a
	// pool. It must not block. Default: nobody is told.
	Retired func(Pool)
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Registerer receives the allocator's metrics. Default: none.
	Registerer prometheus.Registerer
}
