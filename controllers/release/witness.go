package release

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/reservation"
)

// confirmByRecord frees the block of a claim that was seen deleted with its record, by two requests: a
// read of the claim, and the deletion of its record. It reports false if that proves nothing; then the
// holder is asked for.
//
// A server that deletes the record as it was seen, by UID and resourceVersion, has the workspace, and
// as it was after the record was written, which was after the claim was created. So it has known
// the claim, and its word from just before that there is none counts. It is one server for both.
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

// mayFree reports whether nothing but the end of its claim keeps a block with this record from being freed.
func (c *Controller) mayFree(o orphan, record *ipamv1alpha1.IPAllocation) bool {
	return o.held && o.block.State == allocator.Bound && !c.retains(o, record) &&
		!reservation.InFlight(o.block, c.clock.Now())
}
