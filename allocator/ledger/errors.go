package ledger

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"time"
)

// Refusals. They are answers, not faults: asking again without a change gives
// the same answer.
var (
	// ErrUnknownPool: the pool is not registered in the ledger.
	ErrUnknownPool = errors.New("pool is not registered")
	// ErrPoolDraining: the pool allocates nothing any more.
	ErrPoolDraining = errors.New("pool is draining")
	// ErrPoolInUse: somebody holds a block of the pool, or the pool itself.
	ErrPoolInUse = errors.New("pool is in use")
	// ErrPoolMismatch: the pool is registered already, with another CIDR, space or cluster, or its ID has a block without
	// a pool.
	ErrPoolMismatch = errors.New("pool is registered differently")
	// ErrOutOfRange: the exact prefix asked for does not lie in the pool.
	ErrOutOfRange = errors.New("prefix is outside the pool")
	// ErrInUse: the exact prefix asked for is taken, in part or whole.
	ErrInUse = errors.New("prefix is in use")
	// ErrMixed: the pool has blocks of its own, and is asked for an address space; or it has address spaces, and is asked
	// for a block of its own; or it has address spaces of the workspace for other roles. Otherwise two claims that must
	// not share an address could get the same one.
	ErrMixed = errors.New(
		"pool has blocks of its own, or address spaces, that could give the same address to another claim")
	// ErrInvalid: the request could not be met by any ledger; the message says why.
	ErrInvalid = errors.New("request is not valid")
	// ErrChanged: the block, or the pool, is not as the caller last saw it.
	ErrChanged = errors.New("block has changed")
)

// ErrExpired: a list took longer than etcd keeps history. Start it again.
var ErrExpired = errors.New("list has expired; start it again")

// Faults. The caller may try again. No block was allocated that is not in the ledger.
var (
	// ErrBusy: too many requests of the workspace are queued, or others change the same blocks all the time.
	ErrBusy = errors.New("too many requests are queued")
	// ErrUnavailable: the ledger cannot be reached or cannot be written.
	ErrUnavailable = errors.New("ledger is unavailable")
	// ErrCools: a former block of the claim cools under its ID, and differs from what the claim
	// asks for now. A claim has one block at most.
	ErrCools = errors.New("the claim's former block cools")
	// ErrClosed: the allocator was closed.
	ErrClosed = errors.New("allocator is closed")
)

// ExhaustedError refuses a request because the pool has no free block of the
// length asked for.
type ExhaustedError struct {
	Pool   PoolID
	Length int
	// Largest is the length of the largest free block; -1 if nothing is free.
	Largest int
	// NextRelease is when the next cooling block of the pool is free, of whatever length; zero
	// if none cools.
	NextRelease time.Time
}

func (e *ExhaustedError) Error() string {
	said := fmt.Sprintf("no free /%d: the largest free block is a /%d", e.Length, e.Largest)
	if e.Largest < 0 {
		said = fmt.Sprintf("no free /%d: the pool is full", e.Length)
	}
	if e.NextRelease.IsZero() {
		return said
	}
	return said + "; the next cooling block is free at " + e.NextRelease.UTC().Format(time.RFC3339)
}

// CoolingError refuses an exact prefix that lies in a cooling block, or equals it, if the request does not get that
// block back. It is an ErrInUse.
type CoolingError struct {
	// Prefix is the block, and Until is when it is free.
	Prefix netip.Prefix
	Until  time.Time
}

// Error does not say which block was released: it may be larger than the prefix asked for, and was another holder's.
func (e *CoolingError) Error() string {
	return fmt.Sprintf("prefix is cooling, and is given to nobody else until %s", e.Until.UTC().Format(time.RFC3339))
}

// Is makes it an ErrInUse.
func (e *CoolingError) Is(target error) bool { return target == ErrInUse }

// ExcludedError refuses an exact prefix because the pool excludes it, in part or whole. Only Exclude changes that. Room
// that becomes free does not, so there is no use in Waits.Add.
type ExcludedError struct {
	Pool PoolID
	// Excluded is an exclusion of the pool that overlaps the prefix, the first by address.
	Excluded netip.Prefix
}

func (e *ExcludedError) Error() string {
	return fmt.Sprintf("prefix overlaps %s, which the pool excludes", e.Excluded)
}

// QuotaError refuses a request because its workspace would hold more addresses of the pool, or by the class, than a
// limit allows; see Limits. After Waits.Add, the claim is woken when the workspace holds less.
type QuotaError struct {
	Pool  PoolID // the pool whose limit it is; empty if it is the class's
	Class string // the class whose limit it is; empty if it is the pool's
	// Limit, Held and Wanted count addresses. Held is what the workspace has already.
	Limit, Held, Wanted *big.Int
	// Cooling is the part of Held that cools. It is nil for the limit of a class, because nothing counts that part for
	// classes.
	Cooling *big.Int
}

func (e *QuotaError) Error() string {
	cools := ""
	if e.Cooling != nil && e.Cooling.Sign() > 0 {
		cools = fmt.Sprintf(", and %s of them cool after their release", e.Cooling)
	}
	return fmt.Sprintf("the limit of a workspace is %s addresses; this one holds %s%s, and asks for %s more",
		e.Limit, e.Held, cools, e.Wanted)
}

// OverlapError refuses to register a root pool whose CIDR overlaps that of
// another root pool of the same workspace.
type OverlapError struct {
	With Pool
}

func (e *OverlapError) Error() string {
	return fmt.Sprintf("overlaps pool %s (%s)", e.With.Name, e.With.CIDR)
}

// MaxSpacePools is how many pools may share a space. A block counts in each pool that it overlaps. So the more pools
// share a space, the more figures one bind changes.
const MaxSpacePools = 64

// CrowdedError refuses to register a root pool in a space that has MaxSpacePools pools already.
type CrowdedError struct {
	Space SpaceID
}

func (e *CrowdedError) Error() string {
	return fmt.Sprintf("space %s has %d pools, which is as many as may share one", e.Space, MaxSpacePools)
}

// DamageError reports a stored value that is no value of the ledger.
type DamageError struct {
	Key string
	Err error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("key %s: value is damaged: %v", e.Key, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// VersionError reports a stored value that this program does not understand.
type VersionError struct {
	Key     string
	Version int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("key %s: value has version %d, which this program does not know: "+
		"export the plan with the program that wrote it, and import it into a new ledger", e.Key, e.Version)
}

// FrozenError refuses a request because the ledger may lack blocks of the pool's space. Such a space allocates nothing;
// see Options.Frozen. After Waits.Add, the claim is woken when the freeze is over and there is room for it.
type FrozenError struct {
	Pool PoolID
	// Lost: the space is known to lack changes that were made to it. False: the space was not compared yet.
	Lost bool
}

func (e *FrozenError) Error() string {
	if e.Lost {
		return "the ledger has lost changes to the pool's space, and takes them from the published records first"
	}
	return "the pool's space was not compared with the published records yet"
}

// HeldError refuses to let a claim hold a pool because another claim holds it.
type HeldError struct {
	Pool PoolID
	By   Holder
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("claim %s/%s holds the range already", e.By.Namespace, e.By.Name)
}

// ReleasingError refuses a request because the range claim that holds the pool is being deleted. That ends soon: the
// pool is retired, or is opened again.
type ReleasingError struct {
	Pool PoolID
}

func (e *ReleasingError) Error() string { return "the range is being released" }

// Unreadable reports whether an error says that a key of the ledger cannot be read.
func Unreadable(err error) bool {
	var version *VersionError
	var damage *DamageError
	return errors.As(err, &version) || errors.As(err, &damage)
}

// ErrDeposed: another process has taken the office of the ledger's one writer. Nothing of this Allocator is committed
// any more.
var ErrDeposed = fmt.Errorf(
	"%w: another process has taken the office of the ledger's writer; restart the process", ErrUnavailable)

// ErrReplaced: while this Allocator used the ledger, the ledger was restored from an older copy, or replaced by another
// one. The memory of the Allocator is that of the former ledger. So the Allocator gives the new ledger another ID, and
// changes nothing from then on. Open another Allocator.
var ErrReplaced = fmt.Errorf(
	"%w: the ledger was restored or replaced while this process used it; restart the process", ErrUnavailable)
