// Package ledger has the words of the ledger: pools, blocks and their holders, and the answers
// of those that ask for them. It is data.
//
// It owns what these words mean and how they are named. It must not know where they are
// stored, what is free, or what was asked for. Package allocator has all that callers need of
// it under the same names.
package ledger
