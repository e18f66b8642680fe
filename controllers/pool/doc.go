// Package pool brings IPPools into the ledger, and the ledger's figures into their status.
//
//	root pool    register its CIDR; the ledger refuses a CIDR that overlaps another pool of the workspace
//	child pool   carve its CIDR from the parent: a block of the parent that the child holds, by its UID
//	deletion     retire the pool; a finalizer keeps it while it is in use
//
// The status of a pool follows the ledger within half a second. It is written once for all blocks that the pool gives
// out in that time. If one change concerns many pools of an address domain, their statuses are written one after
// another.
package pool
