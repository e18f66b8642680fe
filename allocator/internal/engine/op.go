package engine

import (
	"errors"
	"math/big"
	"net/netip"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Op is a request as the worker sees it. All methods are called with the
// space's lock held.
type Op interface {
	// Cluster names the workspace in whose lane the request waits.
	Cluster() ledger.ClusterName
	// Claim is the claim whose keys the op writes; ok is false for an op that
	// needs a transaction of its own.
	Claim() (id ledger.ClaimID, ok bool)
	// Plan decides, by the state of the space, what to ask of the transaction. An error is
	// the caller's answer, and the op has no part in the transaction.
	Plan(s *Worker) (Share, error)
	// Won brings the change into memory, and returns the caller's answer. got are the answers
	// to Share.Then, which was committed at the revision.
	Won(s *Worker, revision int64, got store.Results) error
	// Lost undoes what Plan has done in memory, and returns the caller's answer. After
	// ErrAgain the op is planned again.
	Lost(s *Worker, why Loss) error
}

// taker is an op that takes addresses.
type taker interface {
	// Takes returns the owner whose accounts they are on, and their number.
	Takes() (by space.Owner, n *big.Int)
}

// OnceOnly is an op that must not be done twice. Uncertain is called when an attempt may
// have been committed, and other writers may have undone it since.
type OnceOnly interface {
	Uncertain()
}

// mover is an op that writes the key of a second claim, too.
type mover interface {
	// From is that claim; empty if there is none.
	From() ledger.ClaimID
}

// changer is an op that writes the key of a block which is in the ledger. One transaction
// may not write a key twice, and after the first of two such ops the block is not what the
// second has seen.
type changer interface {
	// Changes is that block; not valid if there is none.
	Changes() netip.Prefix
}

// refuser is an op that may ask the transaction only to confirm a refusal.
type refuser interface {
	// Refuses reports whether it does. The refusal holds only if the calls before it in the
	// group are committed, too.
	Refuses() bool
}

// Loss says why the share of an op was not committed.
type Loss struct {
	Kind lossKind
	Got  store.Results // what Share.Look has found, if it was refuted
}

type lossKind int

const (
	// Unanswered: whether the transaction was committed is unknown. It cannot be any more.
	Unanswered lossKind = iota
	// Overtaken: another writer has changed the space. Nothing else is known.
	Overtaken
	// Refuted: one of the share's own comparisons has failed.
	Refuted
)

var (
	// ErrAgain: the op can be planned again.
	ErrAgain = errors.New("plan again")
	// ErrStale: the ledger has changed since the caller made the op. The caller makes another one.
	ErrStale = errors.New("ledger has moved on")
)

// Share is what one op asks of the transaction of its group.
type Share struct {
	Ifs  []clientv3.Cmp
	Then []clientv3.Op
	// Look are keys that are read if a comparison fails.
	Look []string
	// DropsSpace ends the space: its head is deleted.
	DropsSpace bool
	// Count is the least that the count of the space's changes becomes.
	Count int64
	// Stamp is the fence of a quota that the transaction puts, once for all shares.
	Stamp *stamp
	// Farewell is the tenure that the share ends; nil: none, or no history is kept. Several shares
	// with one may be carried out together or not at all. Then Won gets no results, and Lost does
	// not get those of a failed comparison before the share is tried alone.
	Farewell *store.Farewell
	// Fence settles an unknown outcome where the space has no head yet.
	Fence *Fence
}

func (sh Share) writes() bool { return slices.ContainsFunc(sh.Then, store.Writes) }

// Fence is a key that a transaction compares. Once somebody has put it again, that
// transaction can no longer succeed.
type Fence struct {
	Key      string
	Revision int64
	Same     []clientv3.Cmp // that the key is as the transaction compares it
	Value    string         // to put
}
