package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A pool that is deleted right after its last claim, as kubectl delete -f does, goes at the first try. One that a claim
// stays in is refused at once.
func TestDrain_AClaimAndItsPoolAreDeletedTogether(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.platform.WaitWebhooks(t, s.tenant)
	var refused, early int
	for i := range 10 {
		pool := gen.Pool(fmt.Sprintf("short-%d", i), gen.CIDR("192.0.2.0/24"))
		claim := gen.Claim(pool.Name, gen.FromPool(pool.Name), gen.Length(28))
		framework.Create(t, s.tenant, pool)
		framework.Bind(t, s.tenant, claim)
		framework.WaitCondition(t, s.tenant, pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
		if err := s.tenant.Delete(t.Context(), pool); !apierrors.IsInvalid(err) {
			t.Errorf("the pool of a claim that stays: %v; want it to be refused", err)
		}
		begun := time.Now()
		framework.Delete(t, s.tenant, claim)
		if err := s.tenant.Delete(t.Context(), pool); err != nil {
			if refused++; time.Since(begun) < 3*time.Second { // as long as the webhook waits on a busy machine
				early++
			}
			t.Logf("after %s: %v", time.Since(begun), err)
			framework.WaitCondition(t, s.tenant, pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
			framework.Delete(t, s.tenant, pool)
		}
		framework.WaitGone(t, s.tenant, pool)
		t.Logf("deleted in %s", time.Since(begun))
	}
	if early > 0 || refused == 10 {
		t.Errorf("%d of 10 pools were not deleted at the first try, %d of them without a wait", refused, early)
	}
}

// A pool that a retained block keeps is refused, and the refusal names the IPAllocation to delete.
func TestDrain_ARetainedBlockIsNamed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pool := s.ownPool(gen.CIDR("192.0.2.0/24"))
	claim := gen.Claim("kept", gen.FromPool(pool.Name), gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	framework.Bind(t, s.tenant, claim)
	framework.WaitCondition(t, s.tenant, pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
	framework.Delete(t, s.tenant, claim)
	record := ipamv1alpha1.AllocationName(claim.Namespace, claim.Name)
	framework.Eventually(t, "the pool to name the IPAllocation", func(ctx context.Context) error {
		err := s.tenant.Delete(ctx, pool)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "IPAllocation default/"+record) {
			return fmt.Errorf("it is refused with %w", err)
		}
		return nil
	})
}
