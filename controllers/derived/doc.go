// Package derived keeps the IPPools of the pools that the system makes, and retires those pools.
//
//	CREATE of a claim        Publish: the IPPools of the pools that it was served from
//	DELETE of a range claim  CloseRange: the pool is empty, closed, and its IPPool gone; then the claim goes
//	the claim is gone        Retire: the pool leaves the ledger
//	nobody uses a pool       a sweep closes and retires it
//
// The ledger decides, and the objects follow it: a missing one is created, one without a pool is deleted, and no pool
// comes into the ledger by its object. So an object needs no finalizer. It goes before the pool does, while the pool is
// closed: an object without a pool tells of a ledger that has lost something, and is left to package recover.
package derived
