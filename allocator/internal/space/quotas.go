package space

import (
	"iter"
	"maps"
	"math/big"
	"sync"
)

// listener is told when less is held on an account that it listens to.
type listener interface {
	requeue(on Account) (looks int)
}

// Quotas are the accounts of classes, whose blocks lie in many spaces, and the rooms that
// listen to an account. Its lock is taken last. The zero value is empty. It is safe for
// concurrent use.
type Quotas struct {
	mu        sync.Mutex
	accounts  map[Account]*big.Int // that are held, and that drafts are about to take
	listeners map[Account]map[listener]struct{}
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

// listen asks for one notification of a space's room when less is held on an account.
func (q *Quotas) listen(a Account, r listener) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.listeners == nil {
		q.listeners = map[Account]map[listener]struct{}{}
	}
	if q.listeners[a] == nil {
		q.listeners[a] = map[listener]struct{}{}
	}
	q.listeners[a][r] = struct{}{}
}

// unlisten ends listen.
func (q *Quotas) unlisten(a Account, r listener) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.listeners[a], r)
	if len(q.listeners[a]) == 0 {
		delete(q.listeners, a)
	}
}

// hears reports whether any room listens to an account.
func (q *Quotas) hears(a Account) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.listeners[a]) > 0
}

// take returns the rooms that listen to an account, and listen no more.
func (q *Quotas) take(a Account) iter.Seq[listener] {
	q.mu.Lock()
	defer q.mu.Unlock()
	listeners := q.listeners[a]
	delete(q.listeners, a)
	return maps.Keys(listeners)
}

// Size is the number of accounts, and the number of those that have listeners.
func (q *Quotas) Size() (accounts, heard int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.accounts), len(q.listeners)
}
