//go:build long

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"slices"
	"testing"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// A platform with the very first schemas, and with tenants on it, is upgraded to today's schemas. The tenants'
// objects stay as they are, without a write. Then the controller is restarted, and everything goes on.
func TestLong_UpgradeFromTheFirstSchemas(t *testing.T) {
	t.Parallel()
	platform := firstPlatform(t)
	platform.StartController(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr, gen.DefaultLength(28))
	tenant := platform.Tenant(t)
	own, child := gen.Pool("own", gen.CIDR("192.0.2.0/24")), gen.Pool("child", gen.ChildOf("own", 26))
	stays, goes := gen.Claim("stays", gen.OfClass(name)), gen.Claim("goes", gen.OfClass(name))
	inChild := gen.Claim("in-child", gen.FromPool("child"), gen.Length(28))
	kept := gen.Claim("kept", gen.OfClass(name), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	wide := selectsMore(t)
	framework.Create(t, tenant, own, child, stays, goes, inChild, kept, wide)
	framework.WaitBound(t, tenant, stays, goes, inChild, kept)
	framework.WaitAllocated(t, tenant, wide, ipamv1alpha1.ReasonPoolNotFound)
	framework.Delete(t, tenant, kept)
	retained(t, tenant, kept)
	waitHeld(t, tenant, own, size(prefix("192.0.2.0/26")))
	if own.Status.Ledger != nil {
		t.Fatalf("the first schemas keep status.ledger, %+v, which came later", own.Status.Ledger)
	}
	before := stored(t, tenant)
	delete(before, fmt.Sprintf("%T %s", wide, wide.Name)) // it is bound later

	must.Do(t, workspaces.Bootstrap(t.Context(), framework.AdminConfig(t), workspaces.Options{Workspace: platform.Path}))
	waitFollows(t, tenant, config.Schemas())
	platform.StopController(t)
	platform.StartController(t)
	next := gen.Claim("next", gen.FromPool("child"), gen.Length(28))
	more := gen.Claim("more", gen.OfClass(name))
	framework.Create(t, tenant, next, more, gen.Pool("labelled", gen.CIDR("198.51.100.0/24"), gen.Label("tier", "0")))
	framework.WaitBound(t, tenant, next, more, wide)
	framework.WaitWhile(t, tenant, child, "its status does not speak of the ledger yet", func(child *ipamv1alpha1.IPPool) bool {
		return child.Status.Ledger == nil
	})
	after := stored(t, tenant)
	for object, version := range before {
		if after[object] != version {
			t.Errorf("%s was written: it is at %q; want %q", object, after[object], version)
		}
	}

	waitHeld(t, platform, pool, size(blocksOf(t, stays, goes, kept, more)...))
	framework.Delete(t, tenant, goes)
	waitUnrecorded(t, tenant, "goes")
	waitHeldSafely(t, platform, pool, size(blocksOf(t, stays, kept, more)...))
	platform.WaitVerified(t)
}

// selectsMore returns a claim with more values in its selector than today's schemas admit. It stays valid as long as
// the selector does not change.
func selectsMore(t *testing.T) *ipamv1alpha1.IPClaim {
	t.Helper()
	tiers := ipamv1alpha1.LabelRequirement{Key: "tier", Operator: metav1.LabelSelectorOpIn}
	for i := range 65 {
		tiers.Values = append(tiers.Values, fmt.Sprint(i))
	}
	return selecting("wide", ipamv1alpha1.PoolSelector{MatchExpressions: []ipamv1alpha1.LabelRequirement{tiers}})
}

// firstPlatform returns a platform of the manifests in testdata/upgrade.
func firstPlatform(t *testing.T) *framework.Platform {
	t.Helper()
	platform := framework.NewPlatformOf(t, firstManifests(t))
	applyFirstCRDs(t, platform)
	return platform
}

// firstManifests returns the first schemas and the first APIExport.
func firstManifests(t *testing.T) workspaces.Options {
	t.Helper()
	export := must.Get(os.ReadFile("testdata/upgrade/apiexport.yaml"))(t)
	return workspaces.Options{Schemas: os.DirFS("testdata/upgrade/schemas"), APIExport: export}
}

// applyFirstCRDs applies those of the first CRDs that have changed since.
func applyFirstCRDs(t *testing.T, platform *framework.Platform) {
	t.Helper()
	err := workspaces.Apply(t.Context(), platform.AdminConfig(t), os.DirFS("testdata/upgrade/crd"))
	if err != nil {
		t.Fatalf("workspaces.Apply: %v", err)
	}
}

// waitFollows waits until a tenant's binding has all schemas of a folder.
func waitFollows(t *testing.T, tenant *framework.Tenant, schemas fs.FS) {
	t.Helper()
	var want []string
	files := must.Get(fs.Glob(schemas, "*.yaml"))(t)
	for _, file := range files {
		data := must.Get(fs.ReadFile(schemas, file))(t)
		schema := &apisv1alpha1.APIResourceSchema{}
		must.Do(t, yaml.Unmarshal(data, schema))
		want = append(want, schema.Name)
	}
	owner := tenant.Owner(t)
	framework.Eventually(t, "the binding to follow the export", func(ctx context.Context) error {
		bindings := &apisv1alpha2.APIBindingList{}
		if err := owner.List(ctx, bindings); err != nil {
			return err
		}
		var has []string
		for _, binding := range bindings.Items {
			for _, bound := range binding.Status.BoundResources {
				has = append(has, bound.Schema.Name)
			}
		}
		for _, schema := range want {
			if !slices.Contains(has, schema) {
				return fmt.Errorf("it has %q, and not %s", has, schema)
			}
		}
		return nil
	})
}

// A platform moves from the first schemas to today's, back, and forth again. Today's controller runs all the while,
// as in docs/upgrade.md, and tenants create and delete claims. For some seconds of a move, kcp serves no status
// subresource, and answers as if the claims were gone: no claim loses its status or its block by that.
func TestLong_UpgradeAndBackUnderLoad(t *testing.T) {
	t.Parallel()
	platform := firstPlatform(t)
	platform.StartController(t)
	name := framework.Name(t)
	pool := offer(t, platform, name, platform.CIDR(t), gen.DefaultLength(28))
	tenant, admin := platform.Tenant(t), framework.Admin(t, platform.Path)
	keeps, waits := gen.Claim("keeps", gen.OfClass(name)), gen.Claim("waits", gen.OfClass("none"))
	kept := gen.Claim("retained", gen.OfClass(name), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	releasing, platforms := gen.Claim("releasing", gen.OfClass(name)), gen.Claim("platforms", gen.OfClass(name))
	releasing.Finalizers = []string{stay}
	framework.Create(t, tenant, keeps, waits, kept, releasing)
	framework.Create(t, admin, platforms)
	framework.WaitBound(t, tenant, keeps, kept, releasing)
	framework.WaitBound(t, admin, platforms)
	framework.WaitAllocated(t, tenant, waits, ipamv1alpha1.ReasonClassNotFound)
	framework.Delete(t, tenant, kept, releasing)
	retained(t, tenant, kept)
	framework.WaitWhile(t, tenant, releasing, "it is not Releasing", func(claim *ipamv1alpha1.IPClaim) bool {
		return claim.Status.Phase != ipamv1alpha1.ClaimReleasing
	})

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
		held := slices.Concat(left, []*ipamv1alpha1.IPClaim{keeps, kept, releasing, platforms})
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
	waitHeldSafely(t, platform, pool, size(blocksOf(t, keeps, kept, platforms)...))
	platform.WaitVerified(t)
}

// waitHeldSafely is waitHeld for claims that may have been stored without the answer that kcp got, because kcp moved
// their workspace meanwhile. Another CREATE may have been stored with that answer, so the block of such a claim stays
// for 75 s after its deletion.
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
