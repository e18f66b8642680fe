//go:build long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"testing"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// A platform of the first schemas that there were is brought to those of today, with
// tenants on it. What they hold stays as it is, written by nobody; then the controller is
// restarted, and all goes on.
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
	framework.WaitFor(t, tenant, recordOf(t, tenant, kept), func(record *ipamv1alpha1.IPAllocation) error {
		if record.Spec.ClaimRef != nil {
			return errors.New("it is not retained yet")
		}
		return nil
	})
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
	framework.WaitFor(t, tenant, child, func(child *ipamv1alpha1.IPPool) error {
		if child.Status.Ledger == nil {
			return errors.New("its status does not speak of the ledger yet")
		}
		return nil
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

// selectsMore is a claim with more values in its selector than today's schemas admit. It stays
// valid as long as the selector does not change.
func selectsMore(t *testing.T) *ipamv1alpha1.IPClaim {
	t.Helper()
	tiers := ipamv1alpha1.LabelRequirement{Key: "tier", Operator: metav1.LabelSelectorOpIn}
	for i := range 65 {
		tiers.Values = append(tiers.Values, fmt.Sprint(i))
	}
	return selecting("wide", ipamv1alpha1.PoolSelector{MatchExpressions: []ipamv1alpha1.LabelRequirement{tiers}})
}

// firstPlatform is a platform of the manifests in testdata/upgrade.
func firstPlatform(t *testing.T) *framework.Platform {
	t.Helper()
	platform := framework.NewPlatformOf(t, firstManifests(t))
	applyFirstCRDs(t, platform)
	return platform
}

// firstManifests are the first schemas and the first APIExport.
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
