// Package history answers from the ledger which claims have or had an address.
//
// It reads etcd, and changes nothing. A directory of workspaces, if there is one, turns paths into logical clusters and
// back. However long the history is, an answer has a bounded number of holders in memory.
package history
