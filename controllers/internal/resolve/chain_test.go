package resolve_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// networks returns a world with a chain: a /48 for each network, a /64 for each location of a network, and a /96 for an
// endpoint.
func networks() world {
	return world{
		classes: []*ipamv1alpha1.IPClass{
			gen.Class("vpc", v6, gen.DefaultLength(48), gen.PoolPer("project", "network"), gen.Strategy(ipamv1alpha1.BestFit)),
			gen.Class("subnet", v6, gen.Below("vpc"), gen.DefaultLength(64), gen.PoolPer("network", "location", "project"), gen.Reserves(1, 0, 96)),
			gen.Class("endpoint", v6, gen.Below("subnet"), gen.DefaultLength(96), gen.Lengths{Min: 96, Max: 128}),
		},
		pools: map[directory.Workspace][]*ipamv1alpha1.IPPool{
			platform: {ready(gen.Pool("b", isPlatform, gen.Backs("vpc"), gen.CIDR("2001:db8:b::/40"))), ready(gen.Pool("a", isPlatform, gen.Backs("vpc"), gen.CIDR("2001:db8:100::/40")))},
		},
	}
}

// class returns a class of the world, to be changed.
func (w world) class(name string) *ipamv1alpha1.IPClass {
	class, _ := w.Class(name)
	return class
}

// chained returns the pools of a plan, from the top.
func chained(plan resolve.Plan) []string {
	pools := make([]string, len(plan.Chain))
	for i, level := range plan.Chain {
		pools[i] = fmt.Sprintf("%s/%d", level.Name[:strings.LastIndex(level.Name, "-")], level.Length)
	}
	return pools
}

var vpc1 = gen.Within("network", "vpc-1", "location", "ams")

// A claim gets its block in the pool of the class above. A range is the pool of its own class.
func TestResolve_ServesAClaimByTheChainOfItsClass(t *testing.T) {
	network, both := []string{"vpc-web-vpc-1/48"}, []string{"vpc-web-vpc-1/48", "subnet-web-ams-vpc-1/64"}
	roots := []string{"a", "b"}
	for _, tt := range []struct {
		name       string
		claim      *ipamv1alpha1.IPClaim
		change     func(world)
		chain      []string
		candidates []string
		length     int
		reason     ipamv1alpha1.Reason
	}{
		{name: "an endpoint", claim: gen.Claim("x", gen.OfClass("endpoint"), vpc1), length: 96, chain: both, candidates: roots},
		{name: "a longer one", claim: gen.Claim("x", gen.OfClass("endpoint"), vpc1, gen.Length(128)), length: 128, chain: both, candidates: roots},
		{name: "the range of a network", claim: gen.Claim("x", gen.OfClass("vpc"), gen.Within("network", "vpc-1"), gen.ForRange()),
			chain: network, candidates: roots},
		{name: "the range of a location", claim: gen.Claim("x", gen.OfClass("subnet"), vpc1, gen.ForRange()), chain: both, candidates: roots},
		{name: "a block of a network", claim: gen.Claim("x", gen.OfClass("subnet"), vpc1), length: 64, chain: network, candidates: roots},
		{name: "a block by the root", claim: gen.Claim("x", gen.OfClass("vpc"), vpc1), length: 48, candidates: roots},
		{name: "more roles than required", claim: gen.Claim("x", gen.OfClass("vpc"), gen.Within("network", "vpc-1", "rack", "r1"), gen.ForRange()),
			chain: network, candidates: roots},
		{name: "pools of all workspaces", claim: gen.Claim("x", gen.OfClass("subnet"), vpc1),
			change: func(w world) {
				w.class("vpc").Spec.PoolPer = []string{"network", "allProjects"}
				w.pools[web] = []*ipamv1alpha1.IPPool{ready(gen.Pool("own", gen.Backs("vpc"), gen.CIDR("fd00::/40")))}
			}, length: 64,
			chain: []string{"vpc-vpc-1/48"}, candidates: roots},
		{name: "own space for an own network", claim: gen.Claim("x", gen.OfClass("subnet"), vpc1), length: 64,
			change: func(w world) {
				w.pools[web] = []*ipamv1alpha1.IPPool{ready(gen.Pool("own", gen.Backs("vpc"), gen.CIDR("fd00::/40")))}
			},
			chain: network, candidates: []string{"own", "a", "b"}},
		{name: "a pool of one network", claim: gen.Claim("x", gen.OfClass("subnet"), vpc1), length: 64,
			change: func(w world) {
				w.pools[platform][0].Spec.Scope = ipamv1alpha1.Scope(gen.Within("network", "vpc-1"))
				w.pools[platform][1].Spec.Scope = ipamv1alpha1.Scope(gen.Within("network", "vpc-2"))
			},
			chain: network, candidates: []string{"b"}},
		{name: "a pool of one location cannot serve a network", claim: gen.Claim("x", gen.OfClass("subnet"), vpc1),
			change: func(w world) {
				for _, pool := range w.pools[platform] {
					pool.Spec.Scope = ipamv1alpha1.Scope(gen.Within("location", "ams"))
				}
			}, reason: ipamv1alpha1.ReasonNoOfferingPool},
		{name: "a pool that says that it was made", claim: gen.Claim("x", gen.OfClass("vpc"), vpc1),
			change: func(w world) {
				for _, pool := range w.pools[platform] {
					pool.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "vpc"}
				}
			}, reason: ipamv1alpha1.ReasonNoOfferingPool},

		{name: "a range of a class without pools", claim: gen.Claim("x", gen.OfClass("endpoint"), vpc1, gen.ForRange()), reason: ipamv1alpha1.ReasonTargetRejected},
		{name: "as large as the pool", claim: gen.Claim("x", gen.OfClass("endpoint"), vpc1, gen.Length(64)),
			change: func(w world) { w.class("endpoint").Spec.AllowedPrefixLengths = nil }, reason: ipamv1alpha1.ReasonPrefixLengthRejected},
		{name: "a broken chain", claim: gen.Claim("x", gen.OfClass("endpoint"), vpc1),
			change: func(w world) { w.class("vpc").Spec.PoolPer = nil }, reason: ipamv1alpha1.ReasonChainBroken},
		{name: "the root has no pool", claim: gen.Claim("x", gen.OfClass("endpoint"), vpc1),
			change: func(w world) { delete(w.pools, platform) }, reason: ipamv1alpha1.ReasonNoOfferingPool},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := networks()
			if tt.change != nil {
				tt.change(w)
			}
			plan, err := query(web, tt.claim).Resolve(w)
			checkReason(t, err, tt.reason)
			if err == nil && (!slices.Equal(chained(plan), tt.chain) || !slices.Equal(pools(plan), tt.candidates) || plan.Length != tt.length) {
				t.Errorf("it gets /%d in %v of %v, want /%d in %v of %v", plan.Length, chained(plan), pools(plan), tt.length, tt.chain, tt.candidates)
			}
		})
	}
}

// The refusal names each missing role, always in the same order. A reference without a name counts as missing.
func TestResolve_NamesMissingRoles(t *testing.T) {
	for _, tt := range []struct {
		scope gen.Scope
		want  []string
	}{
		{nil, []string{"location", "network"}},
		{gen.Within("network", "vpc-1"), []string{"location"}},
		{gen.Within("network", "", "location", "ams"), []string{"network"}},
	} {
		_, err := query(web, gen.Claim("x", gen.OfClass("endpoint"), tt.scope)).Resolve(networks())
		checkReason(t, err, ipamv1alpha1.ReasonScopeRolesMissing)
		refusal, _ := errors.AsType[*outcome.Refusal](err)
		if refusal == nil || !slices.Equal(refusal.Roles, tt.want) {
			t.Errorf("of the scope %v %v are missing, want %v", tt.scope, err, tt.want)
		}
	}
}

// The ledger gets class, workspace and scope of each level.
func TestResolve_GivesTheLedgerEachLevel(t *testing.T) {
	w := networks()
	w.class("vpc").Spec.MaxPerConsumer = "1000"
	plan := must.Get(query(web, gen.Claim("x", gen.OfClass("endpoint"), vpc1)).Resolve(w))(t)
	network, subnet := plan.Chain[0], plan.Chain[1]
	if network.Derived.Class != "vpc" || network.Derived.Workspace != "web" || len(network.Derived.Scope) != 1 || network.Derived.Scope["network"].Name != "vpc-1" {
		t.Errorf("the network's pool is for %+v, want class vpc, workspace web and network vpc-1 alone", network.Derived)
	}
	if network.Limit.String() != "1000" || subnet.Limit != nil {
		t.Errorf("the limits are %v and %v, want 1000 and none", network.Limit, subnet.Limit)
	}
	if network.Strategy != ipamv1alpha1.BestFit || subnet.Strategy != ipamv1alpha1.BestFit || plan.Strategy != ipamv1alpha1.FirstFit {
		t.Errorf("the strategies are %s, %s and %s; want those of the class above, and of the class for the block", network.Strategy, subnet.Strategy, plan.Strategy)
	}
	if got := subnet.Excluded(netip.MustParsePrefix("2001:db8::/64")); network.Excluded != nil || len(got) != 1 || got[0].String() != "2001:db8::/96" {
		t.Errorf("a location reserves %v, want its first /96", got)
	}

	w.class("vpc").Spec.PoolPer = []string{"allProjects", "network"}
	plan = must.Get(query(web, gen.Claim("x", gen.OfClass("vpc"), vpc1, gen.ForRange())).Resolve(w))(t)
	if network := plan.Chain[0]; !network.InPlatform || network.Derived.Workspace != "" || network.Limit != nil {
		t.Errorf("the pool of all is %+v, want one in the platform, of no workspace, without a limit", network)
	}
}

// spaceOf describes the address space in which a level is carved.
func spaceOf(s *resolve.Space) string {
	if s == nil {
		return "the pool above"
	}
	return fmt.Sprintf("%s of %q", s.Scope, s.Workspace)
}

// Each of two networks is carved in an address space of its own: of the workspace that has the network, or of all
// workspaces. Nothing below a network is carved in an address space.
func TestResolve_CarvesEachNetworkInItsOwnSpace(t *testing.T) {
	for tenancy, whose := range map[string]string{"project": "web", "allProjects": ""} {
		w := networks()
		w.class("vpc").Spec.PoolPer, w.class("vpc").Spec.UniqueWithin = []string{tenancy, "network"}, []string{"network"}
		for _, network := range []string{"red", "blue"} {
			plan := must.Get(query(web, gen.Claim("x", gen.OfClass("endpoint"), gen.Within("network", network, "location", "ams"))).Resolve(w))(t)
			vpc, subnet, want := plan.Chain[0], plan.Chain[1], fmt.Sprintf("network=%s of %q", network, whose)
			if spaceOf(vpc.Space) != want || subnet.Space != nil || plan.Space != nil {
				t.Errorf("%s: the network is carved in %s, its location in %s, and a block lies in %s; want %s, and then the pool above",
					tenancy, spaceOf(vpc.Space), spaceOf(subnet.Space), spaceOf(plan.Space), want)
			}
		}
	}
}

// A class has a pool for each location of a network, unique within the network. The pools of a network's locations
// share one address space.
func TestResolve_CarvesTheLocationsOfANetworkInOneSpace(t *testing.T) {
	w := networks()
	w.class("vpc").Spec.PoolPer, w.class("vpc").Spec.UniqueWithin = []string{"project", "network", "location"}, []string{"network"}
	spaces := map[ledger.PoolID]bool{}
	for _, location := range []string{"ams", "fra"} {
		plan := must.Get(query(web, gen.Claim("x", gen.OfClass("vpc"), gen.Within("network", "red", "location", location), gen.ForRange())).Resolve(w))(t)
		spaces[plan.Chain[0].Space.In("root")] = true
	}
	if len(spaces) != 1 {
		t.Errorf("two locations of a network are carved in %d spaces, want one", len(spaces))
	}
}

// A class with uniqueWithin has an address space for each combination of these roles, of the workspace that claims.
func TestResolve_HasASpaceForEachNetwork(t *testing.T) {
	w := place()
	w.classes[0].Spec.UniqueWithin = []string{"network"}
	plan := must.Get(query(db, gen.Claim("x", gen.OfClass("c"), vpc1)).Resolve(w))(t)
	if s := plan.Space; s == nil || s.Workspace != "db" || len(s.Scope) != 1 || s.Scope["network"].Name != "vpc-1" {
		t.Errorf("the space is %+v, want that of network vpc-1 in workspace db", s)
	}
	if plan, _ := query(db, gen.Claim("x", gen.OfClass("c"), vpc1)).Resolve(place()); plan.Space != nil || len(plan.Chain) > 0 {
		t.Errorf("a class without roles has the space %+v and the chain %v, want none", plan.Space, plan.Chain)
	}
}
