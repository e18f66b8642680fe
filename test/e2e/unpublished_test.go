package e2e

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// An unpublished block is never retained. A client that creates a claim, deletes it, and deletes the IPAllocation
// that the claim named, without a pause, is answered 200 or 404, and leaves nothing.
func TestRetain_FreesUnpublishedBlocks(t *testing.T) {
	t.Parallel()
	briefly(t, 30, scene.leavesNothing)
}

// A claim that is deleted right after its CREATE, and made again at once, gets its block back: by its IPAllocation,
// or, if that was not written yet, because the block is free and the first one in its pool.
func TestReuse_GivesTheSameBlockBackAtOnce(t *testing.T) {
	t.Parallel()
	briefly(t, 30, scene.comesAgain)
}

// briefly runs rounds with claims of policy Retain, in four pools at once, and fails the test unless nothing is left
// of them.
func briefly(t *testing.T, rounds int, round func(scene, *ipamv1alpha1.IPClaim)) {
	t.Helper()
	s := newScene(t)
	s.platform.WaitWebhooks(t, s.tenant)
	const atOnce = 4
	var pools []*ipamv1alpha1.IPPool
	for worker := range atOnce {
		pools = append(pools, gen.Pool(fmt.Sprintf("own-%d", worker), gen.CIDR(ipamv1alpha1.CIDR(fmt.Sprintf("198.18.%d.0/24", worker)))))
	}
	framework.Allocate(t, s.tenant, pools...)
	t.Run("rounds", func(t *testing.T) {
		for worker, pool := range pools {
			serves(t, s.tenant, gen.FromPool(pool.Name))
			t.Run(pool.Name, func(t *testing.T) {
				t.Parallel()
				mine := s
				mine.T = t
				for i := worker; i < rounds && !t.Failed(); i += atOnce {
					round(mine, gen.Claim(fmt.Sprintf("brief-%d", i), gen.FromPool(pool.Name), gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain)))
				}
			})
		}
	})
	framework.Eventually(t, "no record to be left", func(ctx context.Context) error {
		left := &ipamv1alpha1.IPAllocationList{}
		if err := s.tenant.List(ctx, left); err != nil || len(left.Items) == 0 {
			return err
		}
		return fmt.Errorf("there are %d, among them %+v", len(left.Items), left.Items[0])
	})
	for _, pool := range pools {
		waitHeld(t, s.tenant, pool, new(big.Int))
	}
}

// leavesNothing creates a claim, and deletes it and its record at once.
func (s scene) leavesNothing(claim *ipamv1alpha1.IPClaim) {
	s.Helper()
	framework.Create(s, s.tenant, claim)
	s.gives(claim)
}

// comesAgain creates a claim, deletes it, and makes it again at once. It must get the block that the first one was
// answered with. If the claim of the round before still had the pool's first block, that may be free by now: a claim
// whose block was not published gets that block.
func (s scene) comesAgain(claim *ipamv1alpha1.IPClaim) {
	s.Helper()
	claim.Spec.RetainedPolicy = ipamv1alpha1.RetainedReuse
	again := claim.DeepCopy()
	framework.Create(s, s.tenant, claim)
	framework.Delete(s, s.tenant, claim.DeepCopy())
	framework.Bind(s, s.tenant, again)
	if first := claim.Status.AllocatedCIDR; strings.HasSuffix(first, ".0/28") && again.Status.AllocatedCIDR != first {
		s.Errorf("claim %s has %s when it is made again; want %s", claim.Name, again.Status.AllocatedCIDR, first)
	}
	s.gives(again)
}

// gives deletes a claim and, in the next request, the record that the claim names.
func (s scene) gives(claim *ipamv1alpha1.IPClaim) {
	s.Helper()
	record := &ipamv1alpha1.IPAllocation{ObjectMeta: metav1.ObjectMeta{
		Namespace: claim.Namespace, Name: ipamv1alpha1.AllocationName(claim.Namespace, claim.Name),
	}}
	if ref := claim.Status.BoundAllocationRef; ref != nil {
		record.Name = ref.Name
	}
	framework.Delete(s, s.tenant, claim)
	err := framework.Remove(s, s.tenant, record)
	if err != nil && !apierrors.IsNotFound(err) {
		s.Errorf("DELETE of the record of %s: %v; want 200 or 404", claim.Name, err)
	}
}
