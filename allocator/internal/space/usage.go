package space

import (
	"maps"
	"math/big"
)

// usage is how many addresses are on each account, of one space. An account that has none is not
// there.
type usage map[Account]*big.Int

// add adds to an account, or takes away.
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

// of is how many addresses are on an account. The caller may change it.
func (u usage) of(a Account) *big.Int {
	if sum, ok := u[a]; ok {
		return new(big.Int).Set(sum)
	}
	return new(big.Int)
}

// until is what has to be added to each account for it to become the next usage.
func (u usage) until(next usage) usage {
	changes := maps.Clone(next)
	for a, was := range u {
		changes[a] = new(big.Int).Sub(next.of(a), was)
	}
	return changes
}
