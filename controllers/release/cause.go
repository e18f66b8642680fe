package release

import (
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// cause is why a block is freed: for the log, and as the ledger's history records it.
type cause struct {
	why      string
	recorded ledger.Cause
}

var (
	claimGone     = cause{"claim is gone", ledger.CauseReleased}
	namespaceGone = cause{"namespace is gone", ledger.CauseReleased}
	poolGone      = cause{"pool is gone", ledger.CausePoolRetired}
	leaseOver     = cause{"lease is over", ledger.CauseLeaseExpired}
	unbound       = cause{"workspace is unbound", ledger.CauseWorkspaceGone}
	anotherHas    = cause{"another claim has the block", ledger.CauseSuperseded}
	laterHas      = cause{"a later claim of the name has the block", ledger.CauseSuperseded}
)
