// Package space is the memory of the spaces of a ledger: their pools and the free space of each,
// the owners of the blocks, the addresses that count for limits, the cooling blocks, and the
// claims that wait for room.
//
// The package decides which claim gets room next. It must not know how a request is written, or
// which operation makes it. It takes keys from package store as they were read, and never asks
// etcd.
package space
