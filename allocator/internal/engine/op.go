package engine

import (
	"errors"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Op is an operation on a space.
type Op struct {
	Lane  ledger.ClusterName // the workspace whose lane it waits in; empty: the lane of operations of no workspace
	Alone bool               // it has a transaction of its own; false: it shares one with others
	// Begins is the address space that the operation is on, and may begin with its first block; nil: the operation is on
	// another kind of space.
	Begins *ledger.Derived
	// Plan decides, from a view of the space, which keys of the ledger change. It is pure: it changes neither memory nor
	// the operation. It is called again if others have changed the ledger. If it returns an error, the caller gets the
	// error, and the operation takes part in no transaction. The space's lock is held.
	Plan func(space.View) (Plan, error)
}

// Plan is the changes of an operation, and its answer, provided that the ledger is as the view showed it. Without
// changes, the transaction only confirms that the ledger is so.
type Plan struct {
	Changes []store.Change
	Refusal error // the caller's answer; nil: the operation is done
	Answer
}

// Refuse returns the plan of an operation that writes nothing. The caller gets the refusal once the transaction has
// confirmed what the plan saw.
func Refuse(refusal error, seen ...store.Change) (Plan, error) {
	return Plan{Changes: seen, Refusal: refusal}, nil
}

// Answer is the result that the caller of an operation gets, once its plan is committed.
type Answer struct {
	Block    ledger.Block
	Pool     ledger.Pool
	Revision int64 // at which the plan was committed
	Attempts int   // how many transactions the operation took part in
}

var (
	// ErrAgain: the operation is to be planned again.
	ErrAgain = errors.New("plan again")
	// ErrOvertaken: the ledger has changed after the caller made the operation. The caller makes another one.
	ErrOvertaken = errors.New("another change came first")
	// ErrGone: the space was retired before the operation was planned.
	ErrGone = errors.New("space is gone")
	// ErrMistaken: memory differs from the ledger in a key, though no other process has put the head: the ledger was
	// changed by hand.
	ErrMistaken = errors.New("memory differs from the ledger")
)
