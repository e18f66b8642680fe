// Package history answers from the ledger which claims have and had an address.
//
// It reads etcd and nothing else. The directory of workspaces, where there is one, only turns
// paths into logical clusters and back. It changes nothing, and holds a bounded number of
// answers in memory, however long the history is.
package history
