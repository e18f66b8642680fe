package space

import (
	"iter"
	"maps"
	"math/big"
	"sync"
)

// watcher is told when less is held on an account that it watches.
type watcher interface {
	requeue(on Account) (looks int)
}

// Quotas are the accounts of classes, whose blocks lie in many spaces, and the rooms that
// watch an account. Its lock is taken last. The zero value is empty. It is safe for
// concurrent use.
type Quotas struct {
	mu       sync.Mutex
	accounts map[Account]*big.Int // that are held, and that drafts are about to take
	watchers map[Account]map[watcher]struct{}
}

// read returns the addresses that are held, or about to be.
func (q *Quotas) read(a Account) *big.Int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if held, ok := q.accounts[a]; ok {
		return new(big.Int).Set(held)
	}
	return new(big.Int)
}

// post adds to the addresses that are held, or about to be.
func (q *Quotas) post(a Account, n *big.Int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.accounts == nil {
		q.accounts = map[Account]*big.Int{}
	}
	usage(q.accounts).add(a, n)
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
