package engine

import (
	"errors"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Op is an operation on a space.
type Op struct {
	Lane  ledger.ClusterName // the workspace in whose lane it waits; empty: one of its own
	Alone bool               // it has a transaction of its own; false: it shares one with others
	// Begins says which address space the operation is on, so that it can begin there; nil: any other space.
	Begins *ledger.Derived
	// Plan decides, by what it sees, which keys of the ledger change. It is pure: it changes nothing, neither in
	// memory nor of the operation, and is called again when what it has seen was changed by others. An error is the
	// caller's answer, and the operation has no part in a transaction. The space's lock is held.
	Plan func(space.View) (Plan, error)
}

// Plan is what becomes of an operation if the ledger is as it was seen. Without changes the transaction confirms just
// that.
type Plan struct {
	Changes []store.Change
	Refusal error // the caller's answer; nil: it is done
	Answer
}

// Refuse returns the plan of an operation that writes nothing. The caller gets the refusal once the transaction has
// confirmed what the plan saw.
func Refuse(refusal error, seen ...store.Change) (Plan, error) {
	return Plan{Changes: seen, Refusal: refusal}, nil
}

// Answer is what the caller of an operation gets, once its plan is committed.
type Answer struct {
	Block    ledger.Block
	Pool     ledger.Pool
	Revision int64 // at which it was committed
	Attempts int   // how many transactions it took part in
}

var (
	// ErrAgain: the operation is to be planned again.
	ErrAgain = errors.New("plan again")
	// ErrOvertaken: the ledger has changed since the caller made the operation. The caller makes another one.
	ErrOvertaken = errors.New("another change came first")
	// ErrGone: the space was retired before the operation was planned.
	ErrGone = errors.New("space is gone")
	// ErrMistaken: memory has a key otherwise than the ledger has, though nobody else has put the head: the ledger was
	// changed by hand.
	ErrMistaken = errors.New("memory differs from the ledger")
)
