package resolve_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A tenant's pool may have addresses that the tenant gets from elsewhere, too. The pool says so. Pools and classes that
// the tenant may not use stay hidden.
func TestOverlap_NamesOnlyWhatTheTenantMayUse(t *testing.T) {
	offered := func(class string, options ...gen.PoolOption) *ipamv1alpha1.IPPool {
		options = append([]gen.PoolOption{gen.CIDR("10.64.0.0/12"), gen.Backs(class), gen.Visible(ipamv1alpha1.VisibilityPlatform)}, options...)
		return ready(gen.Pool("platform-a", options...))
	}
	carved := func(cidr, project string) *ipamv1alpha1.IPPool {
		pool := ready(gen.Pool("edge", gen.CIDR(ipamv1alpha1.CIDR(cidr))))
		pool.Spec.CIDR, pool.Spec.ParentPoolRef = "", &ipamv1alpha1.PoolRef{Name: "edge"}
		if project != "" {
			pool.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: project}
		}
		return pool
	}
	forDB := gen.Consumers{ipamv1alpha1.Consumer(db.Path)}
	everybody, dbOnly := gen.Class("internal"), gen.Class("internal", forDB)
	for name, tt := range map[string]struct {
		cidr  string
		owner directory.Workspace
		class *ipamv1alpha1.IPClass
		pools map[directory.Workspace][]*ipamv1alpha1.IPPool
		want  string // in the message; empty for none
	}{
		"inside":            {"10.64.0.0/16", web, everybody, map[directory.Workspace][]*ipamv1alpha1.IPPool{platform: {offered("internal")}}, `class "internal"`},
		"around":            {"10.0.0.0/8", web, everybody, map[directory.Workspace][]*ipamv1alpha1.IPPool{platform: {offered("internal")}}, `class "internal"`},
		"beside":            {"10.0.0.0/16", web, everybody, map[directory.Workspace][]*ipamv1alpha1.IPPool{platform: {offered("internal")}}, ""},
		"of no class":       {"10.64.0.0/16", web, everybody, map[directory.Workspace][]*ipamv1alpha1.IPPool{platform: {offered("other")}}, ""},
		"of others' class":  {"10.64.0.0/16", web, dbOnly, map[directory.Workspace][]*ipamv1alpha1.IPPool{platform: {offered("internal")}}, ""},
		"of others' pool":   {"10.64.0.0/16", web, everybody, map[directory.Workspace][]*ipamv1alpha1.IPPool{platform: {offered("internal", forDB)}}, ""},
		"hidden":            {"10.64.0.0/16", web, everybody, map[directory.Workspace][]*ipamv1alpha1.IPPool{platform: {offered("internal", gen.Visible(ipamv1alpha1.VisibilityConsumer))}}, ""},
		"of another tenant": {"10.64.0.0/16", web, everybody, map[directory.Workspace][]*ipamv1alpha1.IPPool{db: {offered("internal")}}, ""},
		"of the platform":   {"10.64.0.0/16", platform, everybody, map[directory.Workspace][]*ipamv1alpha1.IPPool{platform: {offered("internal")}}, ""},
		"a slice":           {"10.32.0.0/16", web, everybody, map[directory.Workspace][]*ipamv1alpha1.IPPool{web: {carved("10.32.7.0/24", platform.Path)}}, `pool "edge"`},
		"an own child":      {"10.32.0.0/16", web, everybody, map[directory.Workspace][]*ipamv1alpha1.IPPool{web: {carved("10.32.7.0/24", "")}}, ""},
	} {
		pool := gen.Pool("own", gen.CIDR(ipamv1alpha1.CIDR(tt.cidr)))
		overlap := resolve.Overlap{Pool: pool, CIDR: netip.MustParsePrefix(tt.cidr), Owner: tt.owner, Platform: platform}
		var listed []directory.Workspace
		got := overlap.Foreign(world{classes: []*ipamv1alpha1.IPClass{tt.class}, pools: tt.pools, listed: &listed})
		if slices.Contains(listed, platform) {
			t.Errorf("%s: all pools of the platform are listed, with the shared networks of all tenants", name)
		}
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) || strings.Contains(got, "platform-a") {
			t.Errorf("%s: %q; want it to name %q, and no pool of another workspace", name, got, tt.want)
		}
	}
}
