// Package store reads and writes the ledger in etcd.
//
// It owns the keys, the values and their versions, the words that transactions are written
// in, the pages of lists, the snapshot, the watch, and what etcd's errors mean. It must not
// know what is free, who waits or what was asked for: it keeps nothing of what it has read,
// and decides nothing.
package store
