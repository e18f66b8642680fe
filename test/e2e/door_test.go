package e2e

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The rules that package config tests are those of the servers: limits, words and rules of each kind, in a tenant's workspace
// and on the platform alike, with a message that says what to write instead.
func TestDoor_Create(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name := framework.Name(t)
	tenant := platform.Tenant(t)
	admin := framework.Admin(t, platform.Path)
	for _, row := range []struct {
		object client.Object
		says   string
	}{
		{gen.Pool(name, gen.CIDR("10.0.0.1/24")), "invalid CIDR: 10.0.0.1/24 is not in network form; write 10.0.0.0/24"},
		{gen.Pool(name, gen.Strategy("Random")), `Unsupported value: "Random"`},
		{gen.Pool(name, gen.ChildOf("parent", 129)), "should be less than or equal to 128"},
		{gen.Claim(name, gen.OfClass("a"), gen.FromPool("b")), "exclude each other: give one of them, or none for the default class"},
		{gen.Claim(name, gen.Family("ipv4")), `Unsupported value: "ipv4"`},
		{gen.Claim(name, gen.Length(129)), "should be less than or equal to 128"},
		{gen.Class(name, gen.Lengths{Min: 28, Max: 24}), "min must not exceed max"},
		{gen.Class(name, gen.Family("")), `Unsupported value: ""`},
	} {
		_, isClass := row.object.(*ipamv1alpha1.IPClass)
		for where, c := range map[string]client.Client{tenant.Path: tenant, platform.Path: admin} {
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
	framework.Allocate(t, tenant, own)
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
	pool, claim := gen.Pool("pool"), gen.Claim("web", gen.OfClass("none"), gen.Length(28))
	framework.Create(t, platform, class)
	framework.Create(t, tenant, pool, claim)

	for _, row := range []struct {
		object client.Object
		patch  string
		says   string
	}{
		{pool, `{"cidr": "10.1.0.0/16"}`, "spec.cidr is immutable"},
		{claim, `{"className": "other"}`, "spec.className is immutable"},
		{claim, `{"prefixLength": null}`, "spec.prefixLength is immutable: create another claim"},
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
	framework.Bind(t, tenant, byClass, byPool)

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
