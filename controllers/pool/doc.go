// Package pool brings IPPools into the ledger, and the ledger's figures into
// their status.
//
//	root pool    register its CIDR under the workspace's fence; overlap is decided there
//	child pool   carve its CIDR from the parent: a claim on it, with the child's UID
//	deletion     retire the pool; a finalizer holds it while it is in use
//
// Status follows the ledger within half a second, coalesced: however many
// blocks a pool gives out meanwhile, it is written once. Pools of an address domain that
// share a block take turns, if they are many.
package pool
