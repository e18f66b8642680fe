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

// Gone reports whether the servers say, now, that the holder does not exist. It reports false if nobody can tell now,
// or if the server was restored from a backup.
func (c *Controller) Gone(ctx context.Context, h ledger.Holder) (bool, error) {
	answer, err := c.look(ctx, h)
	return answer.Verdict == live.Gone && !c.seen(h.Claim).outdated(answer.Revision), err
}

// GoneWitnessed reports whether SettleWitnessed would find that the servers lack the holder, with a witness: the
// deletion of the holder was seen, or its IPAllocation is still there and was not stored too late. GoneWitnessed
// changes nothing. It reports false if the holder's workspace is bound nowhere.
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
	own, err := findRecord(ctx, answer, h)
	if err != nil || own == nil {
		return false, err
	}
	if found, err := c.witness(ctx, answer.Client, h, own, bound); err != nil || found != ownRecord {
		return false, err
	}
	answer, err = c.look(ctx, h) // between the two reads the claim may have been stored, and then its record
	return answer.Verdict == live.Gone, err
}

// Alive returns the claim as the servers show it, now. It is nil if the claim is gone, or if nobody can tell now.
func (c *Controller) Alive(ctx context.Context, h ledger.Holder) (*ipamv1alpha1.IPClaim, error) {
	answer, err := c.look(ctx, h)
	if err != nil || answer.Verdict != live.Alive {
		return nil, err
	}
	claim, _ := answer.Object.(*ipamv1alpha1.IPClaim)
	return claim, nil
}

// Published asks the servers for a claim, and whether a record names the claim. The claim is nil if no server shows it.
// Published fails if it cannot read the claim, or cannot read whether there is a record of a claim that is there.
func (c *Controller) Published(
	ctx context.Context, h ledger.Holder,
) (claim *ipamv1alpha1.IPClaim, recorded bool, err error) {
	answer, err := c.look(ctx, h)
	claim, ok := answer.Object.(*ipamv1alpha1.IPClaim)
	if err != nil || !ok || answer.Verdict != live.Alive {
		return nil, false, err
	}
	own, err := findRecord(ctx, answer, h, claim.UID)
	if err != nil {
		return nil, false, err
	}
	return claim, own != nil, nil
}

// findRecord returns the record of the holder, as the server of this answer has it, or nil. The holder's record names
// the holder's ID, or one of the UIDs that are given.
func findRecord(
	ctx context.Context, answer live.Answer, h ledger.Holder, or ...types.UID,
) (*ipamv1alpha1.IPAllocation, error) {
	slot, err := record.Find(ctx, answer.Client, client.ObjectKey{Namespace: h.Namespace, Name: h.Name})
	if err != nil || slot.Record == nil {
		return nil, err
	}
	if _, uid := slot.Record.HeldBy(); slot.Record.AllocationID() != types.UID(h.Claim) && !slices.Contains(or, uid) {
		return nil, nil
	}
	return slot.Record, nil
}

func (c *Controller) look(ctx context.Context, h ledger.Holder) (live.Answer, error) {
	answer, err := c.Oracle.Holder(ctx, h)
	if err != nil {
		return live.Answer{}, fmt.Errorf("look for %s/%s: %w", h.Namespace, h.Name, err)
	}
	return answer, nil
}

var _ door.Releaser = (*Controller)(nil)

// Released implements door.Releaser. It tries to settle the release until ctx ends: another replica, or the hint of the
// deletion, may be settling it at the same time.
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

// released tries once to settle the release. gone reports whether the record is gone, and done whether another attempt
// would be useless.
//
// If Settle retains the record, released deletes the record, and settles once more to free the block. The API server
// might refuse to delete the record itself: its policy decides by the record as it was read before this call, which
// still names the claim. The API server reads the record again only if the first read came from the watch cache.
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
