// Package simetcd is an etcd in memory for simulations. The KV and the Watcher of clientv3 reach it without a network,
// and all its waiting is by timers, so it runs in a bubble of testing/synctest. A test sends the same requests at random
// to it and to a real etcd.
//
//	clientv3.KV ───────pb.KVClient────▶ ┌──────────── Link ────────────┐ ──Apply──▶ ┌──── Etcd ────┐
//	clientv3.Watcher ──pb.WatchClient─▶ │ late, lost, mute, hung, cut  │ ──turn──▶  │ keys and log │
//	                                    └──────────────────────────────┘            └──────────────┘
//
// An [Etcd] stores the versions of keys by revision. It answers ranges, puts, deletes, transactions, compactions and
// watches as an etcd of version 3.6 does, and can return to a [Snapshot].
//
// A [Link] is the connection of one process: it delays and loses requests by a [Fate], holds the responses of a watch
// back, and can be cut.
//
// A real etcd differs in this. Its headers name the cluster, the member and the term. A watch gets progress every ten
// minutes without asking. Its watches may divide the changes of several revisions into responses in another way. It
// has leases, users, nested transactions, comparisons of ranges and of leases, sorted ranges, ranges by revision,
// previous values in the answers to writes, and filters, IDs and fragments of watches. Here, a request that uses one
// of these panics.
package simetcd
