package ledger

import "fmt"

// EventKind says what has happened to a block.
type EventKind string

// The kinds of events.
const (
	// Allocated: the holder has the block from now on.
	Allocated EventKind = "Allocated"
	// Released: the tenure of the holder has ended. Its end and its cause are known only if the
	// ledger keeps a history.
	Released EventKind = "Released"
)

// Event is a change of the holders of a block. A revision has at most one for each holder and
// block.
type Event struct {
	// Revision is the revision of etcd at which the change was made.
	Revision int64
	Kind     EventKind
	Tenure   Tenure
	// Last: no other event of this revision follows.
	Last bool
}

// ForgottenError says that etcd has compacted the changes at a revision.
type ForgottenError struct {
	// Revision is the requested one, or the one at which the reader was too slow.
	Revision int64
	// First is a revision from which on etcd has all changes.
	First int64
}

func (e *ForgottenError) Error() string {
	return fmt.Sprintf("etcd has compacted what happened at revision %d; it has everything from revision %d on",
		e.Revision, e.First)
}
