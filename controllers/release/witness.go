package release

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/reservation"
)

// confirmByRecord frees the block of a claim that was seen deleted, and whose record was seen, too. It
// sends two requests to one server: a read of the claim, and the deletion of its record. It reports false
// if they prove nothing. The caller then asks for the holder.
//
// The proof is that the server deletes exactly the record that was seen, by UID and resourceVersion. So
// it serves the workspace, and has its state from after the record was written, which was after the claim
// was created. Such a server has known the claim, and its answer just before, that there is none, counts.
func (c *Controller) confirmByRecord(ctx context.Context, o orphan) (bool, error) {
	record := c.lastRecord(o.Claim)
	if record == nil || !c.mayFree(o, record) {
		return false, nil
	}
	workspace, lacking, err := c.oracle.Lacks(ctx, o.Holder)
	if err != nil || !lacking {
		log.FromContext(ctx).V(1).Info("the server of the workspace does not say that the claim is gone", "error", err)
		return false, nil
	}
	if err := workspace.Delete(ctx, record, exactly(record)); err != nil {
		log.FromContext(ctx).V(1).Info("the server has no such record", "record", record.Name, "error", err)
		c.forgetRecord(o.Claim)
		return false, nil
	}
	return c.free(ctx, o, claimGone)
}

// mayFree reports whether a block with this record can be freed as soon as its claim is gone.
func (c *Controller) mayFree(o orphan, record *ipamv1alpha1.IPAllocation) bool {
	return o.held && o.block.State == ledger.Bound && !c.retains(o, record) &&
		!reservation.InFlight(o.block, c.clock.Now())
}
