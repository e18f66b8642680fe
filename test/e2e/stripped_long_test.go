//go:build long

package e2e

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A tenant removes the finalizers from its pools and deletes them. Each pool leaves the ledger, and its CIDR can be
// used again: at once if it is empty, else with its last block.
func TestLong_PoolStripped(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t).Replica(t, "swept", sweeping...)
	platform.StartController(t)
	tenant, guest := platform.Tenant(t), platform.Tenant(t)
	owner := tenant.Owner(t)
	cidr := platform.CIDR(t)

	t.Log("an empty pool, and one of the same name in its place")
	for range 3 {
		pool := gen.Pool("empty", gen.CIDR(cidr))
		framework.Allocate(t, owner, pool)
		strip(t, owner, pool)
	}
	waitPools(t, platform, 0)

	t.Log("a pool with a block of another workspace, and one that waits for its CIDR")
	lent := gen.Pool("lent", gen.CIDR(cidr), gen.Visible(ipamv1alpha1.VisibilityShared),
		gen.Consumers{ipamv1alpha1.Consumer(guest.Path)})
	child := gen.Pool("child", gen.ChildOf("lent", 26))
	framework.Allocate(t, owner, lent, child)
	claim := gen.Claim("foreign", gen.FromPoolIn(tenant.Path, "lent"), gen.Length(28))
	framework.Bind(t, guest, claim)
	// The system does here what a tenant can do only in the moment before the pool shows that it is in use.
	strip(t, framework.System(t, tenant.Path), lent)
	next := gen.Pool("next", gen.CIDR(cidr))
	framework.Create(t, owner, next)
	framework.WaitAllocated(t, owner, next, ipamv1alpha1.ReasonOverlap)
	framework.WaitBound(t, guest, claim)
	framework.Delete(t, guest, claim)
	framework.WaitGone(t, guest, claim)
	strip(t, owner, child)
	framework.WaitAllocated(t, owner, next, ipamv1alpha1.ReasonAllocationSucceeded)
	waitPools(t, platform, 1)

	t.Log("while no controller runs, beside one that stays")
	gone := gen.Pool("gone", gen.CIDR("192.168.0.0/16"))
	framework.Allocate(t, owner, gone)
	platform.KillController(t)
	strip(t, owner, gone)
	platform.StartController(t)
	waitPools(t, platform, 1)
	platform.WaitVerified(t)
}

// strip removes the finalizers from a pool and deletes it, until it is gone.
func strip(t *testing.T, owner client.Client, pool *ipamv1alpha1.IPPool) {
	t.Helper()
	framework.Eventually(t, "the pool to be gone", func(ctx context.Context) error {
		for _, err := range []error{owner.Patch(ctx, pool.DeepCopy(), merge(`{"metadata": {"finalizers": null}}`)), owner.Delete(ctx, pool)} {
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
		}
		return fmt.Errorf("it is being deleted")
	})
}

// waitPools waits until the ledger has that many pools.
func waitPools(t *testing.T, platform *framework.Platform, want int) {
	t.Helper()
	framework.Eventually(t, "the pools to leave the ledger", func(context.Context) error {
		if report, _ := platform.Verify(t); report.Pools != want {
			return fmt.Errorf("it has %d, want %d; found %+v", report.Pools, want, report.Findings)
		}
		return nil
	})
}
