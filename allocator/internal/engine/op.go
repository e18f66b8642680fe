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
	// Plan decides, by what the space holds, what to ask of the transaction.
	// An error is the answer, and nothing is asked.
	Plan(s *Worker) (Share, error)
	// Won takes the answers to Share.Then, committed at the revision, and gives
	// the caller's answer.
	Won(s *Worker, revision int64, got store.Results) error
	// Lost takes back what Plan did. After ErrAgain the op is planned again.
	Lost(s *Worker, why Loss) error
}

// taker is an op that takes addresses.
type taker interface {
	// Takes says on whose accounts, and how many.
	Takes() (by space.Owner, n *big.Int)
}

// OnceOnly is an op that must not be done twice. It is told when an attempt may
// have gone through, and been undone by others since.
type OnceOnly interface {
	Uncertain()
}

// mover is an op that writes the key of a second claim, too.
type mover interface {
	// From is that claim; empty if there is none.
	From() ledger.ClaimID
}

// changer is an op that writes the key of a block which is in the ledger. One transaction
// may not write a key twice, and of two such ops one has seen the block as it is no longer.
type changer interface {
	// Changes is that block; not valid if there is none.
	Changes() netip.Prefix
}

// refuser is an op that may ask the transaction for nothing but to confirm a refusal.
type refuser interface {
	// Refuses reports whether it does. It was decided with all that the calls before it in
	// the group are to have.
	Refuses() bool
}

// Loss says why the share of an op did not go through.
type Loss struct {
	Kind lossKind
	Got  store.Results // of a refuted one: the answers to Share.Els
}

type lossKind int

const (
	// Unanswered: whether the transaction has happened is not known, but it cannot
	// happen any more.
	Unanswered lossKind = iota
	// Overtaken: another writer has changed the space. Nothing was compared but its head.
	Overtaken
	// Refuted: a comparison of the share's own has failed.
	Refuted
)

var (
	// ErrAgain: nothing speaks against another attempt.
	ErrAgain = errors.New("plan again")
	// ErrStale: what the op was made from is no longer so. It has to be made anew.
	ErrStale = errors.New("ledger has moved on")
)

// Share is what one op asks of the transaction of its group.
type Share struct {
	Ifs       []clientv3.Cmp
	Then, Els []clientv3.Op
	// DropsSpace ends the space: its head is deleted.
	DropsSpace bool
	// Count is what the count of the space's changes becomes, at the least.
	Count int64
	// Stamp is the fence of a quota that the transaction puts, once for all shares.
	Stamp *stamp
	// Farewell is the tenure that the share ends; nil: none, or no history is kept. Shares with one
	// may be carried out together or not at all: then Won gets no results, and of a failed
	// comparison Lost gets to know when it is tried alone.
	Farewell *store.Farewell
	// Fence settles an unknown outcome where the space has no head yet.
	Fence *Fence
}

func (sh Share) writes() bool { return slices.ContainsFunc(sh.Then, store.Writes) }

// Fence is a key that a transaction compares. Once it is put again, that
// transaction can no longer succeed.
type Fence struct {
	Key      string
	Revision int64
	Same     []clientv3.Cmp // that the key is as the transaction compares it
	Value    string         // to put
}
