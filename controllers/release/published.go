package release

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/internal/absent"
)

// Gone reports whether the servers say, now, that the holder does not exist. It
// reports false while that cannot be known.
func (c *Controller) Gone(ctx context.Context, h ledger.Holder) (bool, error) {
	answer, err := c.look(ctx, h)
	return answer.Verdict == live.Gone && !c.seen(h.Claim).outdated(answer.Revision), err
}

// GoneWitnessed reports whether SettleWitnessed would take the holder for gone: its deletion was seen, or its
// IPAllocation is still there. It changes nothing.
func (c *Controller) GoneWitnessed(ctx context.Context, h ledger.Holder) (bool, error) {
	answer, err := c.look(ctx, h)
	if err != nil || answer.Verdict != live.Gone || c.seen(h.Claim).outdated(answer.Revision) {
		return false, err
	}
	if !c.unseen(&suspect{Holder: h, origin: requested}) {
		return true, nil
	}
	if h.Namespace == "" {
		return false, nil // a pool has no IPAllocation
	}
	return hasRecord(ctx, answer, h)
}

// Alive returns the claim as the servers show it, now. It is nil if the claim is gone, or if that cannot
// be known.
func (c *Controller) Alive(ctx context.Context, h ledger.Holder) (*ipamv1alpha1.IPClaim, error) {
	answer, err := c.look(ctx, h)
	if err != nil || answer.Verdict != live.Alive {
		return nil, err
	}
	claim, _ := answer.Object.(*ipamv1alpha1.IPClaim)
	return claim, nil
}

// Published reads live what a workspace shows of a claim: the claim, and whether a record names it. The claim is
// nil if no server shows it. An error means that one of the two is not known.
func (c *Controller) Published(
	ctx context.Context, h ledger.Holder,
) (claim *ipamv1alpha1.IPClaim, recorded bool, err error) {
	answer, err := c.look(ctx, h)
	claim, ok := answer.Object.(*ipamv1alpha1.IPClaim)
	if err != nil || !ok || answer.Verdict != live.Alive {
		return nil, false, err
	}
	if recorded, err = hasRecord(ctx, answer, h, claim.UID); err != nil {
		return nil, false, err
	}
	return claim, recorded, nil
}

// hasRecord reports whether the server that has answered has a record of the holder: by its ID, or by one of the UIDs.
func hasRecord(ctx context.Context, answer live.Answer, h ledger.Holder, or ...types.UID) (bool, error) {
	slot, err := record.Find(ctx, answer.Client, client.ObjectKey{Namespace: h.Namespace, Name: h.Name})
	if err != nil || slot.Record == nil {
		return false, err
	}
	_, uid := slot.Record.HeldBy()
	return slot.Record.AllocationID() == types.UID(h.Claim) || slices.Contains(or, uid), nil
}

func (c *Controller) look(ctx context.Context, h ledger.Holder) (live.Answer, error) {
	answer, err := c.Oracle.Holder(ctx, h)
	if err != nil {
		return live.Answer{}, fmt.Errorf("look for %s/%s: %w", h.Namespace, h.Name, err)
	}
	return answer, nil
}

var _ door.Releaser = (*Controller)(nil)

// Released implements door.Releaser. It settles the release once more for as long as ctx lasts: another replica, or the
// hint of the deletion, may be settling it, too.
func (c *Controller) Released(
	ctx context.Context, in ledger.ClusterName, of *ipamv1alpha1.IPAllocation,
) (gone bool, err error) {
	name, _ := of.HeldBy()
	holder := ledger.Holder{Claim: ledger.ClaimID(of.AllocationID()), Cluster: in, Namespace: of.Namespace, Name: name}
	waitErr := door.Await(ctx, func(ctx context.Context) (bool, error) {
		var done bool
		gone, done, err = c.released(ctx, holder, of)
		return done, nil
	})
	if err == nil && !gone {
		err = waitErr
	}
	return gone, err
}

// released settles the release once. It reports whether the record is gone, and whether nothing more is to be expected.
//
// A record that is retained by now is deleted here. To leave that to the API server, which was asked to, is not
// certain: it refuses by the record as it was before, and reads it once more only if it had that from its cache.
func (c *Controller) released(
	ctx context.Context, h ledger.Holder, of *ipamv1alpha1.IPAllocation,
) (gone, done bool, err error) {
	answer, err := c.look(ctx, h)
	if err != nil || answer.Verdict != live.Gone || c.seen(h.Claim).outdated(answer.Revision) {
		return false, answer.Verdict == live.Alive, err
	}
	settled, settleErr := c.Settle(ctx, h)
	now := &ipamv1alpha1.IPAllocation{}
	err = answer.Client.Get(ctx, client.ObjectKeyFromObject(of), now)
	switch {
	case absent.Object(err, records, of.Name), err == nil && now.UID != of.UID:
		return true, true, nil
	case err != nil:
		return false, false, fmt.Errorf("read IPAllocation %s/%s: %w", of.Namespace, of.Name, err)
	case now.Spec.ClaimRef != nil:
		return false, settled, settleErr
	}
	if err := deleteRecord(ctx, now, answer.Client); err != nil {
		return false, false, err
	}
	_, err = c.Settle(ctx, h)
	return true, true, err
}
