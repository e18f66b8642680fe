package allocator

import "github.com/kcp-ipam/ipam/allocator/ledger"

// Refusals and faults; package ledger says which is which, and what each means.
var (
	// ErrUnknownPool: the pool is not registered in the ledger.
	ErrUnknownPool = ledger.ErrUnknownPool
	// ErrPoolDraining: the pool allocates nothing any more.
	ErrPoolDraining = ledger.ErrPoolDraining
	// ErrPoolInUse: the pool still holds blocks.
	ErrPoolInUse = ledger.ErrPoolInUse
	// ErrPoolMismatch: the pool is registered already, with another CIDR or space.
	ErrPoolMismatch = ledger.ErrPoolMismatch
	// ErrOutOfRange: the exact prefix asked for does not lie in the pool.
	ErrOutOfRange = ledger.ErrOutOfRange
	// ErrInUse: the exact prefix asked for is taken, in part or whole.
	ErrInUse = ledger.ErrInUse
	// ErrMixed: the pool has blocks of its own and is asked for an address space, or the other way round.
	ErrMixed = ledger.ErrMixed
	// ErrInvalid: the request could not be met by any ledger; the message says why.
	ErrInvalid = ledger.ErrInvalid
	// ErrChanged: the block is not as the caller last saw it.
	ErrChanged = ledger.ErrChanged
	// ErrReservations: the workspace has MaxReservations unconfirmed reservations.
	ErrReservations = ledger.ErrReservations
	// ErrLapsing: CREATEs were answered with the reservation for minutes, and none has stored the claim. It is not
	// renewed, so that its block becomes free.
	ErrLapsing = ledger.ErrLapsing
	// ErrTooOften: CREATEs of one name and spec were answered faster than one a second, by which their answers are told
	// apart.
	ErrTooOften = ledger.ErrTooOften
	// ErrShared: more than one request may have been answered with the reservation; see Confirm.
	ErrShared = ledger.ErrShared
	// ErrBusy: the space's queue is full.
	ErrBusy = ledger.ErrBusy
	// ErrUnavailable: the ledger cannot be reached or cannot be written.
	ErrUnavailable = ledger.ErrUnavailable
	// ErrCools: a former block of the claim cools under its ID, and differs from what the claim
	// asks for now. A claim has one block at most.
	ErrCools = ledger.ErrCools
	// ErrClosed: the allocator was closed.
	ErrClosed = ledger.ErrClosed
	// ErrReplaced: while this Allocator used it, the ledger was restored from an older copy, or
	// replaced by another one. Open another Allocator.
	ErrReplaced = ledger.ErrReplaced
	// ErrExpired: a list took longer than etcd keeps history. Start it again.
	ErrExpired = ledger.ErrExpired
)

// Refusals that say more.
type (
	// ExhaustedError refuses a request because the pool has no free block of the length asked
	// for.
	ExhaustedError = ledger.ExhaustedError
	// CoolingError refuses an exact prefix that is, or lies in, a cooling block which the
	// request does not get back.
	CoolingError = ledger.CoolingError
	// ExcludedError refuses an exact prefix because the pool excludes it, in part or whole.
	ExcludedError = ledger.ExcludedError
	// QuotaError refuses a request because its workspace would hold more than a limit allows, of
	// the pool or by the class; see Limits.
	QuotaError = ledger.QuotaError
	// FrozenError refuses a request because the ledger may lack blocks of the pool's space, which
	// therefore allocates nothing.
	FrozenError = ledger.FrozenError
	// OverlapError refuses to register a root pool whose CIDR overlaps that of another root
	// pool of the same workspace.
	OverlapError = ledger.OverlapError
	// CrowdedError refuses to register a root pool in a space that has as many as it may have.
	CrowdedError = ledger.CrowdedError
	// HeldError refuses to let a claim hold a pool because another one does.
	HeldError = ledger.HeldError
	// ReleasingError refuses a request because the range claim that holds the pool is being deleted.
	ReleasingError = ledger.ReleasingError
	// DamageError reports a stored value that is no value of the ledger.
	DamageError = ledger.DamageError
	// VersionError reports a stored value that this program does not understand.
	VersionError = ledger.VersionError
)

// Unreadable reports whether an error says that a key of the ledger cannot be read.
func Unreadable(err error) bool { return ledger.Unreadable(err) }
