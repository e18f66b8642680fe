package index

import "math/big"

// Histogram counts free blocks by prefix length.
type Histogram [129]int

// Histogram counts the free blocks of each length. Every change keeps it up to date, so that a call costs only a copy.
func (x *Index) Histogram() Histogram { return x.trie.histogram }

// Largest is the prefix length of the largest free block; ok is false when
// nothing is free.
func (x *Index) Largest() (length int, ok bool) {
	if x.width == 0 {
		return 0, false
	}
	if x.trie.vacant() {
		return int(x.window.length), true
	}
	free := x.trie.nodes.inner(root).free
	if free.isZero() {
		return 0, false
	}
	return int(free.first()), true
}

// Available is the exact number of free addresses, whatever its size.
func (x *Index) Available() *big.Int {
	sum := new(big.Int)
	for length, count := range x.trie.histogram {
		if count > 0 {
			sum.Add(sum, x.addresses(uint8(length), count))
		}
	}
	return sum
}

// addresses returns how many addresses are in a number of blocks of one length.
func (x *Index) addresses(length uint8, blocks int) *big.Int {
	n := big.NewInt(int64(blocks))
	return n.Lsh(n, uint(x.width-length))
}
