// Package derived keeps the IPPools of derived pools, which the system makes, and retires these pools.
//
//	CREATE of a claim        Publish: the IPPools of the pools that it was served from
//	DELETE of a range claim  CloseRange: the pool is empty, closed, and its IPPool gone; then the claim goes
//	the claim is gone        Retire: the pool leaves the ledger
//	nobody uses a pool       a sweep closes and retires it
//
// The ledger decides, and the IPPools follow it: a missing IPPool is created, the IPPool of a retired pool is deleted,
// and no IPPool brings a pool into the ledger. So an IPPool needs no finalizer. It is deleted while its pool is closed,
// before the pool leaves the ledger. So if an IPPool shows a CIDR, and its pool is not in the ledger and was not
// retired, the ledger has lost the pool. Such an IPPool is left to package recover.
package derived
