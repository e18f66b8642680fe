package ipamclient

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Release deletes a claim, which gives its block back, and returns that block; the zero value if the claim had none.
// If there is no such claim, ok is false and the error is nil: it was released before. The block is free once the
// claim is gone, unless its reclaimPolicy is Retain.
//
// Only the claim that was read is deleted, never a later one of its name.
//
// A claim with the target ScopeRange holds a range, which is given back as a whole: release the claims inside first,
// then a location, then its network. The error satisfies apierrors.IsConflict while something lives inside; its message
// says what.
func Release(ctx context.Context, c client.WithWatch, name client.ObjectKey) (_ Allocation, ok bool, _ error) {
	claim := &ipamv1alpha1.IPClaim{}
	if err := c.Get(ctx, name, claim); missing(err) {
		return Allocation{}, false, nil
	} else if err != nil {
		return Allocation{}, false, fmt.Errorf("read claim %s: %w", name, err)
	}
	held, _, err := AllocationOf(claim)
	if err != nil {
		return Allocation{}, false, err
	}
	if err := c.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); missing(err) {
		return Allocation{}, false, nil
	} else if err != nil {
		return Allocation{}, false, fmt.Errorf("delete claim %s: %w", name, err)
	}
	return held, true, nil
}
