//go:build long

package e2e

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// If a list leaves out claims, they look deleted to every event and cache. Nothing is freed.
func TestLong_LinkAShortList(t *testing.T) {
	t.Parallel()
	link, platform := framework.NewPlatform(t).Link(t, "linked", sweeping...)
	platform.StartController(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)
	tenant := platform.Tenant(t)
	claims := bindSome(t, tenant, name, "before", 5)

	link.Shorten(t, "ipclaims")
	platform.WaitSwept(t, 4)
	link.Restore()

	claims = append(claims, bindSome(t, tenant, name, "after", 1)...)
	framework.WaitBound(t, tenant, claims...)
	blocks := blocksOf(t, claims...)
	disjointIn(t, cidr, blocks...)
	waitHeld(t, platform, pool, size(blocks...))
}

// A claim whose deletion the cache has missed is shown until the next list. It is bound at most once: then a server
// does not know it. Its record is too young to show that kcp has ever known the claim, so its block stays until the
// sweep after the list frees it. The block of a claim that was bound before is treated in the same way.
func TestLong_LinkBindsAMissedClaimAtMostOnce(t *testing.T) {
	t.Parallel()
	link, platform := framework.NewPlatform(t).Link(t, "linked", sweeping...)
	platform.StartController(t)
	name := framework.Name(t)
	tenant := platform.Tenant(t)
	framework.Create(t, platform, gen.Class(name))
	missed := gen.Claim("missed", gen.OfClass(name), gen.Length(28))
	framework.Create(t, tenant, missed)
	framework.WaitAllocated(t, tenant, missed, ipamv1alpha1.ReasonNoOfferingPool)

	link.Deafen("ipclaims")
	framework.Delete(t, tenant, missed)
	pool := gen.Pool(name, gen.CIDR(platform.CIDR(t)), gen.Backs(name), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	framework.Create(t, platform, pool)
	claims := bindSome(t, tenant, name, "after", 2)
	stays := netip.MustParsePrefix("192.0.2.0/28") // as large as the block of the deleted claim
	waitHeld(t, platform, pool, size(append(blocksOf(t, claims...), stays)...))
	const bound = "ipam_ledger_blocks_bound_total "
	before := platform.Metric(t, bound)
	platform.WaitSwept(t, 6) // three seconds, in which it could be bound again
	if after := platform.Metric(t, bound); after != before {
		t.Errorf("%s blocks were bound, and then %s", before, after)
	}

	framework.Delete(t, tenant, claims[0])
	claims = append(claims, bindSome(t, tenant, name, "later", 1)...) // so that the watch goes on from here
	platform.WaitSwept(t, 3)
	waitHeld(t, platform, pool, size(append(blocksOf(t, claims...), stays)...))
	link.Restore()
	link.Relist(t, "ipclaims")
	waitHeldSafely(t, platform, pool, size(blocksOf(t, claims[1:]...)...)) // freed by the sweep: the records are young
}

// Whatever fails while a controller engages the first workspaces of an endpoint, these and all later workspaces are
// served afterwards, without a restart. The endpoint is never asked for discovery.
func TestLong_EngageAfterAFailure(t *testing.T) {
	t.Parallel()
	link, platform := framework.NewPlatform(t).Link(t, "linked", sweeping...)
	class := framework.Name(t)
	platform.StartController(t)
	offer(t, platform, class, platform.CIDR(t))
	first := platform.Tenant(t)
	platform.StopController(t)

	link.Fail(isDiscovery)
	platform.StartController(t)
	bindSome(t, first, class, "undiscovered", 1)
	link.Restore()
	platform.StopController(t)
	for i, failure := range []struct {
		name  string
		fails func(*http.Request) bool
	}{
		{"bindings", lists("apibindings")},
		{"claims", lists("ipclaims")},
		{"allocations", lists("ipallocations")},
		{"pools", lists("ippools")},
	} {
		t.Log(failure.name)
		link.Fail(failure.fails)
		platform.LaunchController(t) // it is not ready before it has listed the resource that fails
		early := gen.Claim("early-"+failure.name, gen.OfClass(class), gen.Length(28))
		framework.Create(t, first, early)
		next := platform.Tenant(t)
		link.WaitFailed(t, 1)
		link.Restore()

		framework.WaitBound(t, first, early)
		bindSome(t, first, class, "first-"+failure.name, 1)
		bindSome(t, next, class, "next", 1)
		waitEngaged(t, platform, 2+i)
		platform.StopController(t)
	}
}

// isDiscovery reports whether a request asks an endpoint which resources it serves.
func isDiscovery(r *http.Request) bool {
	_, path, ok := strings.Cut(r.URL.Path, "/clusters/")
	_, path, _ = strings.Cut(path, "/")
	return ok && strings.HasPrefix(r.URL.Path, endpoint) && (path == "api" || strings.HasPrefix(path, "apis") && strings.Count(path, "/") < 3)
}

// waitEngaged waits until that many workspaces are bound, and all of them are engaged.
func waitEngaged(t *testing.T, platform *framework.Platform, count int) {
	t.Helper()
	for _, state := range []string{"bound", "engaged"} {
		platform.WaitMetric(t, fmt.Sprintf("ipam_workspaces{state=%q} ", state), fmt.Sprint(count))
	}
	if err := platform.Probe(t.Context(), "/readyz/workspaces"); err != nil {
		t.Errorf("the controller is not ready: %v", err)
	}
}

// While the endpoint of a shard is away, a claim there cannot be known to be gone, and nothing is freed. When the
// endpoint is back, the blocks of all claims that went meanwhile are freed.
func TestLong_LinkAShardAway(t *testing.T) {
	t.Parallel()
	link, platform := framework.NewPlatform(t).Link(t, "linked", sweeping...)
	platform.StartController(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)
	tenant, leaver := platform.Tenant(t), platform.Tenant(t)
	stays, goes := bindSome(t, tenant, name, "stays", 3), bindSome(t, tenant, name, "goes", 3)
	left := bindSome(t, leaver, name, "left", 3)
	all := blocksOf(t, slices.Concat(stays, goes, left)...)
	waitHeld(t, platform, pool, size(all...))

	link.Cut()
	for _, claim := range goes {
		framework.Delete(t, tenant, claim)
	}
	leaver.Unbind(t)
	platform.WaitSwept(t, 8)
	waitHeld(t, platform, pool, size(all...))

	link.Restore()
	waitHeld(t, platform, pool, size(blocksOf(t, stays...)...))
	framework.WaitBound(t, tenant, stays...)
}

// lists reports whether a request lists or watches a resource of all workspaces at an endpoint.
func lists(resource string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return strings.HasPrefix(r.URL.Path, endpoint) && strings.HasSuffix(r.URL.Path, "/"+resource)
	}
}

// endpoint is the beginning of the path of a request to an endpoint of the export.
const endpoint = "/services/apiexport/"
