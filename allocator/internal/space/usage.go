package space

import (
	"math/big"
)

// usage is the number of addresses of one space on each account. It lacks accounts without addresses.
type usage map[Account]*big.Int

// add adds a number, which may be negative, to an account.
func (u usage) add(a Account, n *big.Int) {
	sum, ok := u[a]
	if !ok {
		sum = new(big.Int)
		u[a] = sum
	}
	if sum.Add(sum, n); sum.Sign() == 0 {
		delete(u, a)
	}
}

// of returns the number of addresses on an account. The caller may change it.
func (u usage) of(a Account) *big.Int {
	if sum, ok := u[a]; ok {
		return new(big.Int).Set(sum)
	}
	return new(big.Int)
}

// Pending counts addresses that are about to be taken, and are not in the ledger yet.
type Pending map[Account]*big.Int

// Of returns how many addresses are about to be taken on an account.
func (p Pending) Of(a Account) *big.Int {
	if n, ok := p[a]; ok {
		return n
	}
	return new(big.Int)
}

// Add adds n addresses, which the owner is about to take, to each account of the owner that p counts.
func (p Pending) Add(by Owner, n *big.Int) {
	for a := range by.accounts() {
		if sum, ok := p[a]; ok {
			sum.Add(sum, n)
		}
	}
}
