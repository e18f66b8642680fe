// Package space is what is known of the spaces of a ledger in memory: their pools with the
// free space of each, whose the blocks are, what workspaces hold by their limits, which blocks
// cool, and which claims wait for room.
//
// It owns who is next to get room. It must not know how a request is written, or who asks: it
// reads what package store says of a key, and never asks etcd.
package space
