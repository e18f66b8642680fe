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

// endpoint is how the path of a request to an endpoint of the export begins.
const endpoint = "/services/apiexport/"

// lists reports whether a request lists or watches a resource of all workspaces at an endpoint.
func lists(resource string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return strings.HasPrefix(r.URL.Path, endpoint) && strings.HasSuffix(r.URL.Path, "/"+resource)
	}
}

// sweeping has a controller look for orphans all the time, so that a test need not
// wait for it to do what it should not.
var sweeping = []string{"--sweep-interval=500ms", "--orphan-min-age=1s"}

// While the endpoint of a shard is away nobody can say that a claim there is gone, and
// nothing is freed. When it is back, all that went meanwhile is.
func TestLink_AShardAway(t *testing.T) {
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

// bindSome makes so many claims of a class, and waits until they are bound.
func bindSome(t *testing.T, tenant *framework.Tenant, class, name string, count int, options ...gen.ClaimOption) []*ipamv1alpha1.IPClaim {
	t.Helper()
	claims := make([]*ipamv1alpha1.IPClaim, count)
	for i := range claims {
		claims[i] = gen.Claim(fmt.Sprintf("%s-%d", name, i), append(options, gen.OfClass(class), gen.Length(28))...)
		framework.Create(t, tenant, claims[i])
	}
	framework.WaitBound(t, tenant, claims...)
	return claims
}

func blocksOf(t *testing.T, claims ...*ipamv1alpha1.IPClaim) []netip.Prefix {
	t.Helper()
	blocks := make([]netip.Prefix, len(claims))
	for i, claim := range claims {
		blocks[i] = blockOf(t, claim)
	}
	return blocks
}
