package release

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
)

// Gone reports whether the servers say, now, that the holder does not exist. It
// reports false while that cannot be known.
func (c *Controller) Gone(ctx context.Context, h ledger.Holder) (bool, error) {
	answer, err := c.look(ctx, h)
	return answer.Verdict == live.Gone && !c.seen(h.Claim).outdated(answer.Revision), err
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
func (c *Controller) Published(ctx context.Context, h ledger.Holder) (claim *ipamv1alpha1.IPClaim, recorded bool, err error) {
	answer, err := c.look(ctx, h)
	claim, ok := answer.Object.(*ipamv1alpha1.IPClaim)
	if err != nil || !ok || answer.Verdict != live.Alive {
		return nil, false, err
	}
	slot, err := record.Find(ctx, answer.Client, client.ObjectKey{Namespace: h.Namespace, Name: h.Name})
	if err != nil {
		return nil, false, err
	}
	if slot.Record != nil {
		_, uid := slot.Record.HeldBy()
		recorded = uid == types.UID(h.Claim)
	}
	return claim, recorded, nil
}

func (c *Controller) look(ctx context.Context, h ledger.Holder) (live.Answer, error) {
	answer, err := c.Oracle.Holder(ctx, h)
	if err != nil {
		return live.Answer{}, fmt.Errorf("look for %s/%s: %w", h.Namespace, h.Name, err)
	}
	return answer, nil
}
