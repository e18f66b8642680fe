package e2e

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/networks"
)

// A client that deletes a claim, and in its next request the claim's IPAllocation, is never refused that: the record goes,
// or is gone. With Retain, too, the block is free afterwards. The record of a claim that is there is refused, as ever.
func TestNetworks_ARecordIsDeletedRightAfterItsClaim(t *testing.T) {
	t.Parallel()
	for policy, rounds := range map[ipamv1alpha1.ReclaimPolicy]int{ipamv1alpha1.ReclaimDelete: 100, ipamv1alpha1.ReclaimRetain: 50} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.platform.WaitWebhooks(t, s.tenant)
			pool := s.ownPool(gen.CIDR("192.0.2.0/24"))
			var slowest time.Duration
			absent := 0
			for i := range rounds {
				claim := gen.Claim(fmt.Sprintf("short-%d", i), gen.FromPool(pool.Name), gen.Length(28), gen.Reclaim(policy))
				framework.Create(t, s.tenant, claim)
				if i%2 == 0 {
					framework.WaitBound(t, s.tenant, claim)
				}
				record := &ipamv1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{
					Namespace: claim.Namespace, Name: ipamv1alpha1.AllocationName(claim.Namespace, claim.Name),
				}}
				if i == 0 {
					if err := s.tenant.Delete(t.Context(), record.DeepCopy()); !apierrors.IsInvalid(err) {
						t.Errorf("the record of a claim that is there: %v; want it to be refused", err)
					}
				}
				framework.Delete(t, s.tenant, claim)
				begun := time.Now()
				switch err := patiently(t, func(ctx context.Context) error { return s.tenant.Delete(ctx, record) }); {
				case apierrors.IsNotFound(err):
					absent++
				case err != nil:
					t.Errorf("round %d: the record of a claim that is gone: %v; want 200 or 404", i, err)
				}
				slowest = max(slowest, time.Since(begun))
			}
			t.Logf("%d of %d records were gone already; the slowest DELETE took %s", absent, rounds, slowest)
			framework.Eventually(t, "no record to be left", func(ctx context.Context) error {
				left := &ipamv1alpha1.IPAllocationList{}
				if err := s.tenant.List(ctx, left); err != nil {
					return err
				}
				for i := range left.Items { // of a claim that was deleted before it was written
					if policy == ipamv1alpha1.ReclaimRetain && left.Items[i].Spec.ClaimRef == nil {
						if err := s.tenant.Delete(ctx, &left.Items[i]); err != nil {
							return err
						}
					}
				}
				if len(left.Items) > 0 {
					return fmt.Errorf("there are %d", len(left.Items))
				}
				return nil
			})
			framework.WaitCondition(t, s.tenant, pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
		})
	}
}

// patiently sends a request again while it has no answer, as a controller does: on a busy machine that happens. It logs each time.
func patiently(t *testing.T, do func(context.Context) error) (err error) {
	t.Helper()
	never := retry.Do(t.Context(), framework.Patience, "an answer", func(ctx context.Context) error {
		if err = do(ctx); networks.Unanswered(err) {
			t.Log("asking again:", err)
			return err
		}
		return nil
	})
	return cmp.Or(never, err)
}
