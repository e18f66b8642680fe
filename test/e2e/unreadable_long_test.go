//go:build long

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// A pool that was stored before the schema had a maximum, and that Go cannot read, affects only itself: in the watch
// that shows it, and in the lists of the next controller. It can be deleted like any other pool. A new pool of that
// kind is refused.
func TestLong_UnreadableCostsItselfAlone(t *testing.T) {
	t.Parallel()
	platform := boundless(t)
	platform.StartController(t)
	name := framework.Name(t)
	offer(t, platform, name, platform.CIDR(t))
	odd, even := platform.Tenant(t), platform.Tenant(t)
	serves := func(when string, cidr ipamv1alpha1.CIDR) {
		t.Helper()
		for _, tenant := range []*framework.Tenant{odd, even} {
			pool := gen.Pool("of-"+when, gen.CIDR(cidr))
			own, ofClass := gen.Claim("own-"+when, gen.FromPool(pool.Name), gen.Length(28)), gen.Claim("class-"+when, gen.OfClass(name), gen.Length(28))
			framework.Create(t, tenant, pool, own, ofClass)
			framework.WaitBound(t, tenant, own, ofClass)
		}
	}

	framework.Create(t, odd, gen.Pool("odd", gen.CIDR("192.0.2.0/24")))
	kept := gen.Claim("kept", gen.FromPool("odd"), gen.Length(28))
	framework.Bind(t, odd, kept)
	writeOdd(t, odd)
	waitNotReady(t, odd)
	serves("watched", "198.51.100.0/26")
	late := gen.Claim("late", gen.FromPool("odd"), gen.Length(28))
	framework.Create(t, odd, late)
	framework.WaitAllocated(t, odd, late, ipamv1alpha1.ReasonPoolNotFound)

	must.Do(t, workspaces.Bootstrap(t.Context(), framework.AdminConfig(t), workspaces.Options{Workspace: platform.Path}))
	for _, tenant := range []*framework.Tenant{odd, even} {
		waitFollowsPools(t, tenant)
	}
	refused := reserving("refused", "203.0.113.0/24")
	if err := even.Create(t.Context(), refused); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "2147483647") {
		t.Errorf("Create of a pool that Go does not read = %v, want it to be refused, with the maximum", err)
	}

	platform.KillController(t)
	platform.StartController(t)
	serves("listed", "198.51.100.64/26")
	framework.Delete(t, odd, kept, late)
	waitUnrecorded(t, odd, "kept")
	framework.Eventually(t, "the odd pool to be gone", func(ctx context.Context) error {
		pool := gen.Pool("odd")
		if err := odd.Delete(ctx, pool); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err := odd.Get(ctx, client.ObjectKeyFromObject(pool), oddPool()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	serves("afterwards", "198.51.100.128/26")
	platform.WaitVerified(t)
}

// oddPool returns an empty pool that can hold any value that a server stores.
func oddPool() *unstructured.Unstructured {
	pool := &unstructured.Unstructured{}
	pool.SetGroupVersionKind(ipamv1alpha1.GroupVersion.WithKind("IPPool"))
	return pool
}

// reserving returns a pool with more leading blocks than its Go type can hold.
func reserving(name, cidr string) *unstructured.Unstructured {
	pool := oddPool()
	pool.SetName(name)
	pool.Object["spec"] = map[string]any{
		"cidr": cidr, "reservations": map[string]any{"leading": int64(1) << 31, "unitPrefixLength": int64(32)},
	}
	return pool
}

// writeOdd gives the tenant's pool "odd" a value that Go cannot read.
func writeOdd(t *testing.T, tenant *framework.Tenant) {
	t.Helper()
	patch := `{"spec":{"reservations":{"leading":2147483648,"unitPrefixLength":32}}}`
	pool := oddPool()
	pool.SetName("odd")
	must.Do(t, tenant.Patch(t.Context(), pool, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// waitNotReady waits until the pool "odd" says that it cannot be read.
func waitNotReady(t *testing.T, tenant *framework.Tenant) {
	t.Helper()
	framework.Eventually(t, "the odd pool to say what is wrong", func(ctx context.Context) error {
		pool := oddPool()
		if err := tenant.Get(ctx, client.ObjectKey{Name: "odd"}, pool); err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(pool.Object, "status", "conditions")
		if text := fmt.Sprint(conditions); err != nil || !strings.Contains(text, "leading") {
			return fmt.Errorf("it has the conditions %s, %w", text, err)
		}
		return nil
	})
}

// waitFollowsPools waits until a tenant's binding has today's schema of pools.
func waitFollowsPools(t *testing.T, tenant *framework.Tenant) {
	t.Helper()
	want := &unstructured.Unstructured{}
	data, err := fs.ReadFile(config.Schemas(), "ippools.yaml")
	if err == nil {
		err = yaml.Unmarshal(data, &want.Object)
	}
	if err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, "the tenant to follow the schema", func(ctx context.Context) error {
		binding := &apisv1alpha2.APIBinding{}
		if err := framework.Admin(t, tenant.Path).Get(ctx, client.ObjectKey{Name: workspaces.BindingName}, binding); err != nil {
			return err
		}
		for _, bound := range binding.Status.BoundResources {
			if bound.Resource == "ippools" && bound.Schema.Name == want.GetName() {
				return nil
			}
		}
		return fmt.Errorf("it has %+v", binding.Status.BoundResources)
	})
}

// boundless makes a platform with today's schemas, but without the bounds of the numbers of reserved blocks and
// slices.
func boundless(t *testing.T) *framework.Platform {
	t.Helper()
	const bound = "maximum: 2147483647\n"
	schemas, name := fstest.MapFS{}, ""
	files := must.Get(fs.Glob(config.Schemas(), "*.yaml"))(t)
	for _, file := range files {
		data := must.Get(fs.ReadFile(config.Schemas(), file))(t)
		if file == "ippools.yaml" {
			_, name, _ = strings.Cut(string(data), "\n  name: ")
			name, _, _ = strings.Cut(name, "\n")
			if !strings.Contains(string(data), bound) {
				t.Fatalf("%s has no %q", file, bound)
			}
			data = []byte(strings.ReplaceAll(strings.ReplaceAll(string(data), bound, "\n"), name, "vboundless.ippools.ipam.miloapis.com"))
		}
		schemas[file] = &fstest.MapFile{Data: data}
	}
	export := strings.ReplaceAll(string(config.APIExport()), name, "vboundless.ippools.ipam.miloapis.com")
	return framework.NewPlatformOf(t, workspaces.Options{Schemas: schemas, APIExport: []byte(export)})
}
