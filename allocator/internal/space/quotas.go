package space

import (
	"errors"
	"iter"
	"maps"
	"math/big"
	"sync"
	"time"
)

const (
	// quotaIdle is how long an unused fence is kept. The next claim with that limit makes it
	// again, which costs a transaction.
	quotaIdle = 10 * time.Minute
)

// ErrUnsecured: the request needs the fence of a quota, and there is none.
var ErrUnsecured = errors.New("the fence of the quota is gone")

// watcher is told when less is held on an account that it watches.
type watcher interface {
	requeue(on Account) (looks int)
}

// Quotas are the accounts of classes, whose blocks lie in many spaces, and the rooms that
// watch an account. Its lock is taken last. The zero value is empty. It is safe for
// concurrent use.
type Quotas struct {
	mu       sync.Mutex
	accounts map[Account]*classUsage
	watchers map[Account]map[watcher]struct{}
}

// classUsage is the account of a class.
type classUsage struct {
	held  big.Int
	fence int64 // revision of its fence, 0: none; held counts all that was bound under it up to there

	// As of the last call of Idle.
	seen int64
	used time.Time
}

// read returns the addresses that are held, and the revision of the fence at which they were.
func (q *Quotas) read(a Account) (held *big.Int, fence int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	st, ok := q.accounts[a]
	if !ok {
		return new(big.Int), 0
	}
	return new(big.Int).Set(&st.held), st.fence
}

// Fence is the revision of the fence; 0 if there is none.
func (q *Quotas) Fence(a Account) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if st, ok := q.accounts[a]; ok {
		return st.fence
	}
	return 0
}

// post adds to the addresses that are held.
func (q *Quotas) post(a Account, n *big.Int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	st := q.usage(a)
	st.held.Add(&st.held, n)
	q.forget(a)
}

// forget removes an account that holds nothing and has no fence.
func (q *Quotas) forget(a Account) {
	if st := q.accounts[a]; st != nil && st.held.Sign() == 0 && st.fence == 0 {
		delete(q.accounts, a)
	}
}

// Fenced notes that the fence was put at the revision. The caller has posted all that was
// bound under it up to there.
func (q *Quotas) Fenced(a Account, revision int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	st := q.usage(a)
	st.fence = max(st.fence, revision)
}

// Lifted notes that the fence was deleted, if it was not put after the revision.
func (q *Quotas) Lifted(a Account, revision int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if st := q.accounts[a]; st != nil && st.fence <= revision {
		st.fence = 0
		q.forget(a)
	}
}

// KeepFences notes that the ledger had these fences and no others, as of the revision.
func (q *Quotas) KeepFences(fences map[Account]int64, revision int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for a, st := range q.accounts {
		if _, ok := fences[a]; !ok && st.fence <= revision {
			st.fence = 0
			q.forget(a)
		}
	}
}

// Idle returns the fences, and their revisions, of accounts that hold nothing. Each was not put
// for quotaIdle, as the calls of Idle have seen it.
func (q *Quotas) Idle(now time.Time) map[Account]int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	found := map[Account]int64{}
	for a, st := range q.accounts {
		switch {
		case st.fence == 0:
		case st.held.Sign() != 0 || st.seen != st.fence:
			st.seen, st.used = st.fence, now
		case now.Sub(st.used) >= quotaIdle:
			found[a] = st.fence
		}
	}
	return found
}

func (q *Quotas) usage(a Account) *classUsage {
	if q.accounts == nil {
		q.accounts = map[Account]*classUsage{}
	}
	if q.accounts[a] == nil {
		q.accounts[a] = &classUsage{}
	}
	return q.accounts[a]
}

// watch asks for one notification of a space's room when less is held on an account.
func (q *Quotas) watch(a Account, r watcher) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.watchers == nil {
		q.watchers = map[Account]map[watcher]struct{}{}
	}
	if q.watchers[a] == nil {
		q.watchers[a] = map[watcher]struct{}{}
	}
	q.watchers[a][r] = struct{}{}
}

// unwatch ends watch.
func (q *Quotas) unwatch(a Account, r watcher) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.watchers[a], r)
	if len(q.watchers[a]) == 0 {
		delete(q.watchers, a)
	}
}

// watched reports whether any room watches an account.
func (q *Quotas) watched(a Account) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.watchers[a]) > 0
}

// take returns the rooms that watch an account, and ends their watches.
func (q *Quotas) take(a Account) iter.Seq[watcher] {
	q.mu.Lock()
	defer q.mu.Unlock()
	watchers := q.watchers[a]
	delete(q.watchers, a)
	return maps.Keys(watchers)
}

// Size is the number of accounts, and the number of those that are watched.
func (q *Quotas) Size() (accounts, watched int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.accounts), len(q.watchers)
}
