package release

import "github.com/kcp-ipam/ipam/allocator"

// cause is why a block is freed: for the log, and as the ledger's history records it.
type cause struct {
	why      string
	recorded allocator.Cause
}

var (
	claimGone     = cause{"claim is gone", allocator.CauseReleased}
	namespaceGone = cause{"namespace is gone", allocator.CauseReleased}
	poolGone      = cause{"pool is gone", allocator.CausePoolRetired}
	leaseOver     = cause{"lease is over", allocator.CauseLeaseExpired}
	unbound       = cause{"workspace is unbound", allocator.CauseWorkspaceGone}
	anotherHas    = cause{"another claim has the block", allocator.CauseSuperseded}
	laterHas      = cause{"a later claim of the name has the block", allocator.CauseSuperseded}
)
