package e2e

import (
	"context"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Retained is what was published. A client that creates a claim, deletes it, and deletes the IPAllocation that the claim named,
// without a pause, is answered 200 or 404, and leaves nothing.
func TestRetain_OfAClaimThatWasNeverPublished(t *testing.T) {
	t.Parallel()
	unpublished(t, 30)
}

// unpublished does so as many times.
func unpublished(t *testing.T, rounds int) {
	t.Helper()
	s := newScene(t)
	s.platform.WaitWebhooks(t, s.tenant)
	pool := s.ownPool(gen.CIDR("198.18.0.0/15"))
	const atOnce = 4
	var all sync.WaitGroup
	for worker := range atOnce {
		all.Go(func() {
			for i := worker; i < rounds && !t.Failed(); i += atOnce {
				s.leavesNothing(gen.Claim(fmt.Sprintf("brief-%d", i), gen.FromPool(pool.Name), gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain)))
			}
		})
	}
	all.Wait()
	framework.Within(t, time.Minute, "no record to be left", func(ctx context.Context) error {
		left := &ipamv1alpha1.IPAllocationList{}
		if err := s.tenant.List(ctx, left); err != nil || len(left.Items) == 0 {
			return err
		}
		return fmt.Errorf("there are %d, among them %+v", len(left.Items), left.Items[0])
	})
	waitHeld(t, s.tenant, pool, new(big.Int))
}

// leavesNothing creates a claim, and deletes it and its record at once.
func (s scene) leavesNothing(claim *ipamv1alpha1.IPClaim) {
	if err := s.tenant.Create(s.Context(), claim); err != nil {
		s.Errorf("CREATE of claim %s: %v", claim.Name, err)
		return
	}
	record := &ipamv1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{
		Namespace: claim.Namespace, Name: ipamv1alpha1.AllocationName(claim.Namespace, claim.Name),
	}}
	if ref := claim.Status.BoundAllocationRef; ref != nil {
		record.Name = ref.Name
	}
	if err := s.tenant.Delete(s.Context(), claim); err != nil {
		s.Errorf("DELETE of claim %s: %v", claim.Name, err)
	}
	err := patiently(s.T, func(ctx context.Context) error { return s.tenant.Delete(ctx, record) })
	if err != nil && !apierrors.IsNotFound(err) {
		s.Errorf("DELETE of the record of %s: %v; want 200 or 404", claim.Name, err)
	}
}
