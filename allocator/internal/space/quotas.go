package space

import (
	"math/big"
	"sync"
)

// Quotas has the accounts of classes, whose blocks lie in many spaces. Its lock is taken last. The zero value is empty.
// It is safe for concurrent use.
type Quotas struct {
	mu       sync.Mutex
	accounts map[Account]*big.Int // addresses that are held, or that drafts are about to take
}

// read returns the addresses of an account that are held, or that drafts are about to take.
func (q *Quotas) read(a Account) *big.Int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if held, ok := q.accounts[a]; ok {
		return new(big.Int).Set(held)
	}
	return new(big.Int)
}

// post adds to the addresses of an account that are held, or that drafts are about to take.
func (q *Quotas) post(a Account, n *big.Int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.accounts == nil {
		q.accounts = map[Account]*big.Int{}
	}
	usage(q.accounts).add(a, n)
}
