// Package space is the memory of the spaces of a ledger: their pools and the free space of each,
// the owners of the blocks, the addresses that count for limits, the cooling blocks, and the
// claims that wait for room.
//
// The package decides which claim gets room next. When room is freed, or a limit has addresses again, a sweep begins:
// it goes once through the waiters of a pool in their order, holds room for those that fit, and wakes those whose
// reason to wait has changed. Its cost grows with the workspaces that wait there, and with the claims that wait for an
// exact prefix.
//
// The package must not know how a request is written, or which operation makes it. It takes keys as package store has
// read them, and never asks etcd.
package space
