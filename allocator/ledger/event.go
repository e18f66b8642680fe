package ledger

import "fmt"

// EventKind says what has happened to a block.
type EventKind string

// The kinds of events.
const (
	// Allocated: the holder has the block from now on. One whose State is Reserved is a CREATE
	// that was answered with the block.
	Allocated EventKind = "Allocated"
	// Confirmed: the claim of a reservation was created, and has the block from the answer on.
	Confirmed EventKind = "Confirmed"
	// Released: the holder has let go. Its tenure has ended; without a history it has no cause and
	// no end.
	Released EventKind = "Released"
)

// Event is one thing that has happened to the holder of a block. In one revision there is one
// of each holder and block, at most.
type Event struct {
	// Revision of the ledger in which it happened.
	Revision int64
	Kind     EventKind
	Tenure   Tenure
	// Last: no other event of this revision follows.
	Last bool
}

// ForgottenError says that etcd no longer has what happened at a revision.
type ForgottenError struct {
	// Revision is what was asked for, or the one at which a reader was too slow.
	Revision int64
	// First is one from which everything is there.
	First int64
}

func (e *ForgottenError) Error() string {
	return fmt.Sprintf("etcd has compacted what happened at revision %d; it has everything from revision %d on", e.Revision, e.First)
}
