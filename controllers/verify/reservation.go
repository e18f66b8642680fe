package verify

import (
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// overdue is the age, from its first answer, at which a reservation should have been confirmed or freed: a sweep hints at
// it within half a minute after its grace, and some live reads follow. A cooldown that is over so
// long should have been ended, too.
const overdue = promise.Grace + time.Minute

// promised reports whether the block that a claim shows is reserved for it, and notes that.
func (c comparison) promised(cluster ledger.ClusterName, claim *ipamv1alpha1.IPClaim) bool {
	held := c.blocks.of(promise.Of(cluster, claim))
	if held == nil || held.Prefix.String() != claim.Status.AllocatedCIDR {
		return false
	}
	held.promised = true
	return true
}

// judgeReservation says what is wrong with a block that is reserved for a claim.
func (c comparison) judgeReservation(held *block) {
	since := held.BoundAt
	if first, ok := c.reserved(held.Holder.Claim); ok && first.Before(since) {
		since = first // a CREATE that fails again and again renews the reservation
	}
	if held.State != ledger.Reserved || c.now.Sub(since) < overdue {
		return // a dispute has a finding of its own
	}
	what := "the block is reserved for a claim that was not created"
	if held.promised {
		what = "the claim shows the block, which is still only reserved for it"
	}
	c.find(about(BlockWithoutClaim, held.Block, "%s, since %s", what, since.Format(time.RFC3339)).by(ConfirmRelease))
}
