// Package store reads and writes the ledger in etcd.
//
// It owns the keys, the values and their versions, the parts that transactions are made of, the
// pages of lists, the snapshot, the watch, and the meaning of etcd's errors. It must not know
// which room is free, which claims wait, or what a caller has asked for. It keeps nothing that
// it has read, and decides nothing.
package store
