package ledger

import (
	"net/netip"
	"time"
)

// Cause says why a tenure has ended.
type Cause string

// The causes that the ledger records. A newer program may record others.
const (
	// CauseReleased: the claim is gone.
	CauseReleased Cause = "Released"
	// CauseLeaseExpired: the claim is gone, and the lease of its retained block is over.
	CauseLeaseExpired Cause = "LeaseExpired"
	// CauseWorkspaceGone: the workspace is not bound any longer.
	CauseWorkspaceGone Cause = "WorkspaceGone"
	// CausePoolRetired: the holder was a child pool, which was retired.
	CausePoolRetired Cause = "PoolRetired"
	// CauseCreateFailed: the block was for a CREATE that has failed.
	CauseCreateFailed Cause = "CreateFailed"
	// CauseSuperseded: a later claim of the same name has the block.
	CauseSuperseded Cause = "Superseded"
)

// Tenure is a holder of a block, and the time during which it has or had the block.
type Tenure struct {
	Prefix netip.Prefix
	Pool   PoolID
	// PoolName is the pool's name, and Scope the names of the objects that the pool is for, such as
	// location=ams,network=vpc-1. Both are kept with a tenure that has ended: the pool may be gone.
	PoolName, Scope string
	Space           SpaceID
	Holder          Holder
	Class           string
	// Slice: the system gave the block to the workspace unasked.
	Slice bool
	// Adopted: the ledger was lost or restored, and took the block from a published record, at From.
	// The holder may have had it for longer.
	Adopted bool
	// From is when it began, by the clock of the Allocator that bound the block.
	From time.Time
	// Until is when it ended, never before From; zero: it has not ended.
	Until time.Time
	// CoolsUntil is the end of the cooldown that began at Until; zero: there was none.
	CoolsUntil time.Time
	// Cause is why the tenure ended; empty if it has not ended.
	Cause Cause
	// State is the state of the block; empty if the tenure has ended.
	State BlockState
	// Revision is the revision of the block's last change within the tenure. Later tenures of the block have a greater
	// revision.
	Revision int64
}

// BucketBits is the number of bits by which a bucket of the history is shorter than the longest prefixes in it.
const BucketBits = 4

// Bucket is the prefix under which the history keeps the tenure, together with those of neighbouring
// blocks. Of all prefixes whose length is a multiple of BucketBits, it is the longest that covers more
// than the block. The bucket of a /32 is a /28. All tenures of a block lie in one bucket.
func (t Tenure) Bucket() netip.Prefix {
	bits := max(0, t.Prefix.Bits()-1) / BucketBits * BucketBits
	return netip.PrefixFrom(t.Prefix.Addr(), bits).Masked()
}

// Begun returns when the tenure of the block's holder began.
func (b Block) Begun() time.Time {
	if b.Since.IsZero() {
		return b.BoundAt
	}
	return b.Since
}

// Tenure returns the tenure of the block's holder, which has not ended.
func (b Block) Tenure() Tenure {
	return Tenure{
		Prefix: b.Prefix, Pool: b.Pool, Space: b.Space, Holder: b.Holder, Class: b.Class, Slice: b.Slice, Adopted: b.Adopted,
		From: b.Begun(), State: b.State, Revision: b.Revision,
	}
}

// In returns the tenure with the name and the scope of its pool.
func (t Tenure) In(p Pool) Tenure {
	t.PoolName = p.Name
	if p.Derived != nil {
		t.Scope = p.Derived.Scope.String()
	}
	return t
}

// Ended returns the tenure with its end. If the clock that released the block was behind, the tenure ends when it
// began.
func (t Tenure) Ended(until time.Time, cause Cause) Tenure {
	if until.Before(t.From) {
		until = t.From
	}
	t.Until, t.Cause, t.State = until, cause, ""
	return t
}

// Overlaps reports whether two tenures of a block overlap by more than skew. The clocks of the two writers may differ
// by skew.
func (t Tenure) Overlaps(other Tenure, skew time.Duration) bool {
	return t.before(other.Until, skew) && other.before(t.Until, skew)
}

// before reports whether the tenure begins before end by more than skew. A zero end is later than any time.
func (t Tenure) before(end time.Time, skew time.Duration) bool {
	return end.IsZero() || t.From.Add(skew).Before(end)
}
