// Package ledger has the words of the ledger: pools, blocks and their holders, requests and
// refusals. It is data.
//
// It owns the meaning and the names of these words. It must not know where they are stored,
// which room is free, or which operations there are. Package allocator exports them to callers
// under the same names.
package ledger
