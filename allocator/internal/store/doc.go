// Package store reads and writes the ledger in etcd.
//
// It owns the keys, the values and their versions, the parts that transactions are made of, the
// office of the one writer (office.go), the pages of lists, the snapshot, and the meaning of etcd's errors. It
// must not know which room is free, which claims wait, or what a caller has asked for. It keeps nothing that
// it has read but the head of the ledger, and decides nothing.
package store
