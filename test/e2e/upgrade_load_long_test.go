//go:build long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// A platform moves from the first schemas to those of today, back, and forth again. The
// controller of today works all the while, as in docs/upgrade.md, and tenants create and
// delete claims. For some seconds of a move kcp serves no status subresource, and answers
// as if the claims were gone: no claim loses its status or its block by that.
func TestLong_UpgradeAndBackUnderLoad(t *testing.T) {
	t.Parallel()
	platform := firstPlatform(t)
	platform.StartController(t)
	name := framework.Name(t)
	pool := offer(t, platform, name, platform.CIDR(t), gen.DefaultLength(28))
	tenant, admin := platform.Tenant(t), framework.Admin(t, platform.Path)
	keeps, waits := gen.Claim("keeps", gen.OfClass(name)), gen.Claim("waits", gen.OfClass("none"))
	retained := gen.Claim("retained", gen.OfClass(name), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	releasing, platforms := gen.Claim("releasing", gen.OfClass(name)), gen.Claim("platforms", gen.OfClass(name))
	releasing.Finalizers = []string{stay}
	framework.Create(t, tenant, keeps, waits, retained, releasing)
	framework.Create(t, admin, platforms)
	framework.WaitBound(t, tenant, keeps, retained, releasing)
	framework.WaitBound(t, admin, platforms)
	framework.WaitAllocated(t, tenant, waits, ipamv1alpha1.ReasonClassNotFound)
	framework.Delete(t, tenant, retained, releasing)
	framework.WaitFor(t, tenant, recordOf(t, tenant, retained), isRetained)
	framework.WaitFor(t, tenant, releasing, isReleasing)

	today, first := workspaces.Options{Schemas: config.Schemas()}, firstManifests(t)
	for _, move := range []struct {
		name string
		to   workspaces.Options
		crds func(*testing.T, *framework.Platform)
	}{
		{"forth", today, nil}, {"back", first, applyFirstCRDs}, {"forth-again", today, nil},
	} {
		load := startLoad(t, tenant, name, move.name)
		load.creates(10)
		move.to.Workspace = platform.Path
		must.Do(t, workspaces.Bootstrap(t.Context(), framework.AdminConfig(t), move.to))
		if move.crds != nil {
			move.crds(t, platform)
		}
		waitFollows(t, tenant, move.to.Schemas)
		load.creates(80) // for longer than kcp takes to serve the schemas
		left := load.stop()

		framework.WaitBound(t, tenant, left...)
		unchanged(t, tenant, keeps)
		unchanged(t, tenant, waits)
		unchanged(t, tenant, releasing)
		unchanged(t, admin, platforms)
		held := slices.Concat(left, []*ipamv1alpha1.IPClaim{keeps, retained, releasing, platforms})
		waitHeldSafely(t, platform, pool, size(blocksOf(t, held...)...))
		late := gen.Claim("late-"+move.name, gen.OfClass(name))
		framework.Bind(t, admin, late)
		framework.Delete(t, admin, late)
		for _, claim := range left {
			framework.Delete(t, tenant, claim)
		}
	}
	finalizers(t, tenant, releasing, letsGo)
	framework.WaitGone(t, tenant, releasing)
	waitHeldSafely(t, platform, pool, size(blocksOf(t, keeps, retained, platforms)...))
	platform.WaitVerified(t)
}

func isRetained(record *ipamv1alpha1.IPAllocation) error {
	if record.Spec.ClaimRef != nil {
		return errors.New("it is not retained yet")
	}
	return nil
}

func isReleasing(claim *ipamv1alpha1.IPClaim) error {
	if claim.Status.Phase != ipamv1alpha1.ClaimReleasing {
		return fmt.Errorf("its phase is %q, want Releasing", claim.Status.Phase)
	}
	return nil
}

// waitHeldSafely is waitHeld where claims were stored without the answer that kcp had for them,
// as it moved their workspace meanwhile. Another CREATE may have been stored with that answer, so
// the block of such a claim stays for 75 s after it is deleted.
func waitHeldSafely(t *testing.T, c client.Reader, pool *ipamv1alpha1.IPPool, addresses *big.Int) {
	t.Helper()
	framework.Within(t, 3*framework.Patience, "blocks that may have been answered twice to be freed", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
			return err
		}
		if held := pool.Status.Capacity.Allocated; held != addresses.String() {
			return fmt.Errorf("%s addresses are held; want %s", held, addresses)
		}
		return nil
	})
	waitHeld(t, c, pool, addresses)
}
