package release

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/internal/absent"
)

// Published reads live what a workspace shows of a claim: the claim, and whether a record names it. The claim is
// nil if no server shows it. An error means that one of the two is not known.
func (c *Controller) Published(ctx context.Context, h ledger.Holder) (claim *ipamv1alpha1.IPClaim, recorded bool, err error) {
	answer, err := c.oracle.Holder(ctx, h)
	if err != nil {
		return nil, false, fmt.Errorf("look for claim %s/%s: %w", h.Namespace, h.Name, err)
	}
	claim, ok := answer.Object.(*ipamv1alpha1.IPClaim)
	if !ok || answer.Verdict != live.Alive {
		return nil, false, nil
	}
	for _, name := range ipamv1alpha1.AllocationNames(h.Namespace, h.Name) {
		record := &ipamv1alpha1.IPAllocation{}
		err := answer.Client.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, record)
		if absent.Object(err, records, name) {
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("look for IPAllocation %s/%s: %w", h.Namespace, name, err)
		}
		if _, uid := record.HeldBy(); uid == types.UID(h.Claim) {
			return claim, true, nil
		}
	}
	return claim, false, nil
}
