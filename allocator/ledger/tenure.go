package ledger

import (
	"net/netip"
	"time"
)

// Cause says why the holder of a block has it no longer.
type Cause string

// The causes that the ledger records. An older program may meet others.
const (
	// CauseReleased: the claim is gone.
	CauseReleased Cause = "Released"
	// CauseLeaseExpired: the claim is gone, and the lease of its retained block is over.
	CauseLeaseExpired Cause = "LeaseExpired"
	// CauseWorkspaceGone: the workspace is not bound any longer.
	CauseWorkspaceGone Cause = "WorkspaceGone"
	// CausePoolRetired: the holder was a child pool, which was retired.
	CausePoolRetired Cause = "PoolRetired"
	// CauseCreateFailed: the holder was a reservation, and no claim was created.
	CauseCreateFailed Cause = "CreateFailed"
	// CauseSuperseded: a later claim of the same name has the block.
	CauseSuperseded Cause = "Superseded"
)

// Tenure is the time during which one holder has a block, or had it.
type Tenure struct {
	Prefix netip.Prefix
	Pool   PoolID
	Space  SpaceID
	Holder Holder
	Class  string
	// Slice: the system gave the block to the workspace unasked.
	Slice bool
	// Adopted: the block was taken into the ledger from a published record, at From. Since when
	// the holder had it, a ledger that was lost or restored does not tell.
	Adopted bool
	// Disputed: others had the same addresses at the time.
	Disputed bool
	// From is when it began, by the clock of the Allocator that bound the block.
	From time.Time
	// Until is when it ended, never before From; zero: the holder has the block still.
	Until time.Time
	// CoolsUntil is when the block was to be free, if it had to cool from Until on; else zero.
	CoolsUntil time.Time
	// Cause is why it ended; empty if it did not.
	Cause Cause
	// State is that of the block; empty if the tenure has ended.
	State BlockState
	// Revision is that of the last change of the block, up to its end. Among the tenures of a
	// block it grows.
	Revision int64
}

// BucketBits is by how many bits a bucket of the history is shorter than the longest prefixes that
// lie in it.
const BucketBits = 4

// Bucket is the prefix under which the history keeps the tenure, beside those of its neighbours:
// of all prefixes whose length is a multiple of BucketBits, the longest that covers more than the
// block. That of a /32 is a /28. All tenures of a block lie in one bucket.
func (t Tenure) Bucket() netip.Prefix {
	bits := max(0, t.Prefix.Bits()-1) / BucketBits * BucketBits
	return netip.PrefixFrom(t.Prefix.Addr(), bits).Masked()
}

// Begun is when the holder of a block began to have it.
func (b Block) Begun() time.Time {
	if b.Since.IsZero() || b.State == Reserved {
		return b.BoundAt
	}
	return b.Since
}

// Tenure is that of the block's holder, which lasts.
func (b Block) Tenure() Tenure {
	return Tenure{
		Prefix: b.Prefix, Pool: b.Pool, Space: b.Space, Holder: b.Holder, Class: b.Class, Slice: b.Slice, Adopted: b.Adopted,
		Disputed: b.State == Disputed, From: b.Begun(), State: b.State, Revision: b.Revision,
	}
}

// Ended is the tenure once the holder has let go. A clock that was behind when the block was
// released makes the tenure end as it began.
func (t Tenure) Ended(until time.Time, cause Cause) Tenure {
	if until.Before(t.From) {
		until = t.From
	}
	t.Until, t.Cause, t.State = until, cause, ""
	return t
}

// Overlaps reports whether two tenures of a block overlap by more than what the clocks of
// Allocators may differ. Those of a disputed block may.
func (t Tenure) Overlaps(other Tenure, skew time.Duration) bool {
	if t.Disputed || other.Disputed {
		return false
	}
	return t.before(other.Until, skew) && other.before(t.Until, skew)
}

// before reports whether it begins before a time, which may be zero for none, by more than that.
func (t Tenure) before(end time.Time, skew time.Duration) bool {
	return end.IsZero() || t.From.Add(skew).Before(end)
}
