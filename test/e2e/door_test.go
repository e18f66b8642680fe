package e2e

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// What makes no sense is refused when it is written, with a message that says what to
// write instead; in a tenant's workspace and on the platform alike.
func TestDoor_Create(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name := framework.Name(t)
	tenant := platform.Tenant(t)
	pool := func(options ...gen.PoolOption) client.Object { return gen.Pool(name, options...) }
	claim := func(options ...gen.ClaimOption) client.Object { return gen.Claim(name, options...) }
	class := func(options ...gen.ClassOption) client.Object { return gen.Class(name, options...) }
	child := gen.ChildOf("parent", 24)

	for _, row := range []struct {
		object client.Object
		says   string
	}{
		{pool(gen.CIDR("10.0.0.0")), "invalid CIDR: write a network such as 10.0.0.0/8"},
		{pool(gen.CIDR("10.0.0.0/33")), "invalid CIDR: write a network such as 10.0.0.0/8"},
		{pool(gen.CIDR("10.0.0.1/24")), "invalid CIDR: 10.0.0.1/24 is not in network form; write 10.0.0.0/24"},
		{pool(gen.CIDR("2001:DB8::/32")), "invalid CIDR: 2001:DB8::/32 is not in network form; write 2001:db8::/32"},
		{pool(gen.CIDR("")), "spec.cidr is required on a root pool"},
		{pool(child, gen.CIDR("10.0.0.0/24")), "spec.cidr is not allowed on a child pool"},
		{pool(gen.ChildOf("parent", 0)), "spec.prefixLength and spec.parentPoolRef go together"},
		{pool(child, gen.Family(ipamv1alpha1.IPv4)), "spec.ipFamily is not allowed on a child pool"},
		{pool(gen.Family(ipamv1alpha1.IPv6)), "address family of spec.ipFamily does not match spec.cidr"},
		{pool(gen.Lengths{Min: 28, Max: 24}), "minPrefixLength must not exceed maxPrefixLength"},
		{pool(gen.Lengths{Min: 24, Max: 33}), "prefix lengths must be 1 to 32 in a pool of IPv4"},
		{pool(gen.Lengths{Min: 8, Max: 12}), "a prefix length is shorter than that of spec.cidr"},
		{pool(gen.Excludes("192.168.0.0/24")), "192.168.0.0/24 is not inside 10.0.0.0/16"},
		{pool(gen.Consumers{"root/acme"}), "invalid workspace: write a path such as root:acme:web"},

		{claim(gen.OfClass("a"), gen.FromPool("b")), "exclude each other: give one of them, or none for the default class"},
		{claim(gen.OfClass("a"), gen.Selecting("b", "c")), "exclude each other"},
		{claim(gen.FromPool("a"), gen.Selecting("b", "c")), "exclude each other"},
		{claim(gen.Length(129)), "should be less than or equal to 128"},
		{claim(gen.Length(-1)), "should be greater than or equal to 1"},
		{claimOfLength(t, name, 0), "should be greater than or equal to 1"},
		{claim(gen.Family(ipamv1alpha1.IPv4), gen.Length(33)), "spec.prefixLength must be 1 to 32 for IPv4"},
		{claim(gen.Address("10.0.0.300")), "invalid address: write an address such as 192.0.2.7"},
		{claim(gen.Address("10.0.0.1/24")), "10.0.0.1/24 is not in network form; write 10.0.0.0/24"},
		{claim(gen.Address("10.0.0.0/24"), gen.Length(25)), "spec.prefixLength does not match spec.address"},
		{claim(gen.Address("10.0.0.1"), gen.Family(ipamv1alpha1.IPv6)), "address family of spec.ipFamily does not match spec.address"},

		{class(gen.Lengths{Min: 28, Max: 24}), "min must not exceed max"},
		{class(gen.Lengths{Min: 24, Max: 33}), "spec.allowedPrefixLengths must be within 0 to 32 for IPv4"},
		{class(gen.DefaultLength(33)), "spec.defaultPrefixLength must be 1 to 32 for IPv4"},
		{class(gen.Lengths{Min: 24, Max: 28}, gen.DefaultLength(30)), "spec.defaultPrefixLength must be 24 to 28"},
		{class(gen.Family("")), `Unsupported value: ""`},
	} {
		_, isClass := row.object.(*ipamv1alpha1.IPClass)
		for where, c := range map[string]client.Client{tenant.Path: tenant, platform.Path: framework.Admin(t, platform.Path)} {
			if isClass && where == tenant.Path {
				continue // classes are made on the platform only
			}
			object := row.object.DeepCopyObject().(client.Object)
			isRefused(t, c.Create(t.Context(), object), row.says, "create %T in %s", object, where)
		}
	}
}

// A pool for all is the platform's to make, and so are slices.
func TestDoor_PlatformOnly(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	tenant := platform.Tenant(t)
	for who, c := range map[string]client.Client{
		"a user": tenant, "the owner": tenant.Owner(t), "kcp's admin": framework.Admin(t, tenant.Path),
	} {
		forAll := gen.Pool("for-all", gen.Visible(ipamv1alpha1.VisibilityPlatform))
		isRefused(t, c.Create(t.Context(), forAll), `Unsupported value: "platform"`, "%s makes a platform pool", who)
		sliced := gen.Pool("sliced", gen.Slices(24))
		isRefused(t, c.Create(t.Context(), sliced), "spec.slices is not allowed outside the platform workspace", "%s makes slices", who)
	}
	own := gen.Pool("own")
	framework.Create(t, tenant, own)
	framework.WaitAllocated(t, tenant, own, ipamv1alpha1.ReasonAllocationSucceeded)
	own.Spec.Visibility = ipamv1alpha1.VisibilityPlatform
	isRefused(t, tenant.Update(t.Context(), own), `Unsupported value: "platform"`, "a user makes a pool the platform's")

	name := framework.Name(t)
	there := tenant.In(t, platform.Path)
	for _, object := range []client.Object{gen.Class(name), platformPool(name, platform.CIDR(t))} {
		if err := there.Create(t.Context(), object); !apierrors.IsForbidden(err) {
			t.Errorf("a tenant's user creates %T on the platform: %v; want Forbidden", object, err)
		}
	}
}

// What is immutable stays as it was written.
func TestDoor_Change(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name := framework.Name(t)
	tenant := platform.Tenant(t)
	class := gen.Class(name)
	root, child := gen.Pool("root"), gen.Pool("child", gen.ChildOf("root", 24))
	claim := gen.Claim("web", gen.OfClass("none"), gen.Length(28))
	framework.Create(t, platform, class)
	framework.Create(t, tenant, root, child, claim)

	for _, row := range []struct {
		object client.Object
		patch  string
		says   string
	}{
		{root, `{"cidr": "10.1.0.0/16"}`, "spec.cidr is immutable"},
		{root, `{"ipFamily": "IPv4"}`, "spec.ipFamily is immutable"},
		{child, `{"parentPoolRef": {"name": "other"}}`, "spec.parentPoolRef is immutable"},
		{child, `{"prefixLength": 25}`, "spec.prefixLength is immutable"},
		{claim, `{"className": "other"}`, "spec.className is immutable"},
		{claim, `{"className": null, "poolRef": {"name": "root"}}`, "spec.poolRef is immutable"},
		{claim, `{"className": null, "poolSelector": {"matchLabels": {"a": "b"}}}`, "spec.poolSelector is immutable"},
		{claim, `{"prefixLength": 27}`, "spec.prefixLength is immutable"},
		{claim, `{"ipFamily": "IPv4"}`, "spec.ipFamily is immutable"},
		{claim, `{"prefixLength": null, "address": "10.0.0.0/28"}`, "spec.address is immutable"},
		{claim, `{"unmetPolicy": "Refuse"}`, "spec.unmetPolicy is immutable"},
		{claim, `{"ownerRef": {"kind": "Pod", "name": "web", "uid": "1"}}`, "spec.ownerRef is immutable"},
		{class, `{"ipFamily": "IPv6"}`, "spec.ipFamily is immutable"},
	} {
		c := client.Client(tenant)
		if row.object == class {
			c = platform
		}
		object := row.object.DeepCopyObject().(client.Object)
		err := c.Patch(t.Context(), object, merge(`{"spec": `+row.patch+`}`))
		isRefused(t, err, row.says, "patch %T with %s", object, row.patch)
	}
	if err := tenant.Patch(t.Context(), claim, merge(`{"spec": {"reclaimPolicy": "Retain"}}`)); err != nil {
		t.Errorf("change a claim's reclaimPolicy: %v", err)
	}
}

// A pool that holds blocks is not deleted, by whomever; when they are released it is.
func TestDoor_PoolInUse(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name := framework.Name(t)
	shared := offer(t, platform, name, platform.CIDR(t))
	tenant := platform.Tenant(t)
	own := gen.Pool("own")
	framework.Create(t, tenant, own)
	byClass, byPool := gen.Claim("by-class", gen.OfClass(name), gen.Length(28)), gen.Claim("by-pool", gen.FromPool("own"), gen.Length(28))
	framework.Create(t, tenant, byClass, byPool)
	framework.WaitBound(t, tenant, byClass, byPool)

	for _, row := range []struct {
		c     client.Client
		admin client.Client
		pool  *ipamv1alpha1.IPPool
		claim *ipamv1alpha1.IPClaim
		says  string
	}{
		{tenant, framework.Admin(t, tenant.Path), own, byPool, "claim default/by-pool"},
		{platform, framework.Admin(t, platform.Path), shared, byClass, "(the pool holds 1 block)"},
	} {
		framework.WaitCondition(t, row.c, row.pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
		for _, c := range []client.Client{row.c, row.admin} {
			err := c.Delete(t.Context(), row.pool)
			isRefused(t, err, "this pool is in use: release its claims and child pools first", "delete pool %s", row.pool.Name)
			isRefused(t, err, row.says, "delete pool %s", row.pool.Name)
		}
		framework.Delete(t, tenant, row.claim)
		framework.WaitCondition(t, row.c, row.pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
		framework.Delete(t, row.c, row.pool)
		framework.WaitGone(t, row.c, row.pool)
	}
}

// isRefused fails the test unless err is the refusal of an object, and says so.
func isRefused(t *testing.T, err error, says, what string, args ...any) {
	t.Helper()
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
		t.Errorf(what+": %v; want a refusal that says %q", append(args, err, says)...)
	}
}

// claimOfLength is a claim that gives a prefix length, even 0.
func claimOfLength(t *testing.T, name string, length int64) client.Object {
	t.Helper()
	claim := &unstructured.Unstructured{}
	claim.SetGroupVersionKind(ipamv1alpha1.GroupVersion.WithKind("IPClaim"))
	claim.SetNamespace("default")
	claim.SetName(name)
	if err := unstructured.SetNestedField(claim.Object, length, "spec", "prefixLength"); err != nil {
		t.Fatalf("SetNestedField: %v", err)
	}
	return claim
}
