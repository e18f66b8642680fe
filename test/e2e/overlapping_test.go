package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// inNetwork returns a claim by a class in the location ams of a network.
func (r *ranges) inNetwork(name, class, network string, options ...gen.ClaimOption) *ipamv1alpha1.IPClaim {
	return gen.Claim(name, append(options, gen.OfClass(r.name+class), gen.Within("network", network, "location", "ams"))...)
}

// Two networks hold the same CIDR, with the same subnets and hosts. Within a network, no address is given twice. Only
// the claims inside a network keep it from being deleted. The pool above counts the networks as its address spaces.
func TestOverlapping_NetworksHaveTheSameSubnetsAndHosts(t *testing.T) {
	t.Parallel()
	r := newRangesIn(newScene(t), gen.UniqueWithin("network"))
	same, all := map[string][]string{}, map[string][]*ipamv1alpha1.IPClaim{}
	for _, network := range []string{"red", "blue"} {
		vpc := r.inNetwork(network, "-net", network, gen.ForRange())
		subnet := r.inNetwork(network+"-ams", "-loc", network, gen.ForRange())
		first, second := r.inNetwork(network+"-a", "", network), r.inNetwork(network+"-b", "", network)
		r.gets(vpc, subnet, first, second)
		all[network] = []*ipamv1alpha1.IPClaim{first, second, subnet, vpc}
		for _, claim := range all[network] {
			same[network] = append(same[network], claim.Status.AllocatedCIDR)
		}
		framework.WaitBound(t, r.tenant, first, second)
		if pool := r.pool(vpc); len(pool.Status.UniqueWithin) != 1 || pool.Spec.ParentPoolRef.Name != r.root.Name {
			t.Errorf("the pool of network %s is %+v, unique within %v; want it below %s, unique within the network",
				network, pool.Spec, pool.Status.UniqueWithin, r.root.Name)
		}
	}
	if fmt.Sprint(same["red"]) != fmt.Sprint(same["blue"]) || same["red"][0] == same["red"][1] {
		t.Errorf("the networks have %v and %v; want the same, and no address twice", same["red"], same["blue"])
	}
	framework.WaitWhile(t, r.platform, r.root, "it does not show two networks", func(pool *ipamv1alpha1.IPPool) bool {
		return pool.Status.Spaces != 2 || pool.Status.Capacity.Allocated != "256"
	})
	r.refuses(all["blue"][3], "claim default/blue-a", "claim default/blue-b", "range claim default/blue-ams")
	r.gone(all["red"]...)
	r.gone(all["blue"]...)
	framework.WaitCondition(t, r.platform, r.root, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
}

// overlap is a number of networks of one CIDR in one workspace, each with the same numbers of subnets and hosts.
type overlap struct {
	scene
	root                     *ipamv1alpha1.IPPool
	networks, subnets, hosts int
}

// newOverlap makes the classes on a new platform, whose controller gets these flags. The root pool is as large as one
// network.
func newOverlap(t *testing.T, networks, subnets, hosts int, flags ...string) overlap {
	t.Helper()
	platform := framework.NewPlatform(t).Reconfigured(t, append(flags, "--sweep-interval=1s", "--orphan-min-age=1s")...)
	platform.StartController(t)
	o := overlap{
		scene:    scene{T: t, platform: platform, tenant: platform.Tenant(t), name: "host", cidr: "10.0.0.0/16"},
		networks: networks, subnets: subnets, hosts: hosts,
	}
	framework.Create(t, platform,
		gen.Class("vpc", gen.DefaultLength(16), gen.PoolPer("project", "network"), gen.UniqueWithin("network")),
		gen.Class("subnet", gen.DefaultLength(24), gen.PoolPer("project", "network", "subnet"), gen.Below("vpc"), gen.Reserves(1, 1, 32)),
		gen.Class("host", gen.DefaultLength(32), gen.Below("subnet")))
	o.root = platformPool("vpcs", o.cidr, "vpc")
	framework.Allocate(t, platform, o.root)
	serves(t, o.tenant, gen.OfClass("host"), gen.Within("network", "probe", "subnet", "probe"))
	return o
}

// fill creates the hosts of all networks in random order, with that many clients. It calls the function then after
// each part, and returns when all hosts exist.
func (o overlap) fill(clients, parts int, then func()) {
	o.Helper()
	claims := o.claims()
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] }) //nolint:gosec // a fixed order
	reached := make(chan struct{})
	var group errgroup.Group
	group.SetLimit(clients)
	var created errgroup.Group
	created.Go(func() error {
		for i, claim := range claims {
			if i%(len(claims)/parts) == len(claims)/parts-1 {
				reached <- struct{}{}
			}
			group.Go(func() error {
				return retry.Do(o.Context(), framework.Patience, "the CREATE of "+claim.Name, func(ctx context.Context) error {
					return client.IgnoreAlreadyExists(o.tenant.Create(ctx, claim))
				})
			})
		}
		return group.Wait()
	})
	for range parts {
		<-reached
		then()
	}
	must.Do(o, created.Wait())
}

// claims returns a claim for each host.
func (o overlap) claims() (all []*ipamv1alpha1.IPClaim) {
	for n := range o.networks {
		for s := range o.subnets {
			for h := range o.hosts {
				network, subnet := fmt.Sprint("net-", n), fmt.Sprint("sub-", s)
				all = append(all, gen.Claim(fmt.Sprintf("%s-%s-%d", network, subnet, h), gen.OfClass("host"), gen.Within("network", network, "subnet", subnet)))
			}
		}
	}
	return all
}

// wantNothingTwice waits until all hosts are bound. It checks that each network has the whole CIDR, and that no
// address is given twice in it.
func (o overlap) wantNothingTwice() {
	o.Helper()
	claims, pools := &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPPoolList{}
	framework.Eventually(o, "all hosts to be bound, and all pools to show their CIDR", func(ctx context.Context) error {
		if err := errors.Join(o.tenant.List(ctx, claims), o.tenant.List(ctx, pools)); err != nil {
			return err
		}
		for i := range pools.Items {
			if pools.Items[i].Status.AllocatedCIDR == "" {
				return fmt.Errorf("pool %s shows none", pools.Items[i].Name)
			}
		}
		if bound, want := countBound(claims), o.networks*o.subnets*o.hosts; bound != want {
			return fmt.Errorf("%d of %d are", bound, want)
		}
		return nil
	})
	cidrs, subnets, hosts := map[string]ipamv1alpha1.CIDR{}, map[string][]netip.Prefix{}, map[string][]netip.Prefix{}
	for i := range pools.Items {
		pool := &pools.Items[i]
		switch network := pool.Spec.Scope["network"].Name; pool.Spec.ClassRef.Name {
		case "vpc":
			if cidrs[network] != "" || pool.Status.AllocatedCIDR != string(o.cidr) {
				o.Errorf("network %s has %s and %s, want %s alone", network, cidrs[network], pool.Status.AllocatedCIDR, o.cidr)
			}
			cidrs[network] = ipamv1alpha1.CIDR(pool.Status.AllocatedCIDR)
		default:
			cidrs[pool.Name] = ipamv1alpha1.CIDR(pool.Status.AllocatedCIDR)
			subnets[network] = append(subnets[network], prefix(cidrs[pool.Name]))
		}
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		network, block := claim.Spec.Scope["network"].Name, blockOf(o.T, claim)
		disjointIn(o.T, cidrs[claim.Status.PoolRef.Name], block)
		hosts[network] = append(hosts[network], block)
	}
	for network, of := range hosts {
		if len(subnets[network]) != o.subnets || len(of) != o.subnets*o.hosts {
			o.Errorf("network %s has %d subnets and %d hosts; want %d and %d", network, len(subnets[network]), len(of), o.subnets, o.subnets*o.hosts)
		}
		disjointIn(o.T, o.cidr, subnets[network]...)
		disjointIn(o.T, o.cidr, of...)
	}
	framework.WaitWhile(o, o.platform, o.root, "it does not count its networks", func(pool *ipamv1alpha1.IPPool) bool {
		return int(pool.Status.Spaces) != o.networks
	})
	o.platform.WaitVerified(o.T)
}

// The controller is killed while eight clients make hosts in networks of one CIDR. Nothing is given twice within a
// network. When the claims have gone, the networks go, and their root pool can be deleted.
func TestOverlapping_GivesNothingTwiceThroughKills(t *testing.T) {
	t.Parallel()
	o := newOverlap(t, 8, 3, 4, "--derived-pool-idle=1s")
	o.fill(8, 2, func() {
		o.platform.KillController(t)
		o.platform.StartController(t)
	})
	o.wantNothingTwice()
	for _, claim := range o.claims() {
		framework.Delete(t, o.tenant, claim)
	}
	framework.WaitCondition(t, o.platform, o.root, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
	framework.Delete(t, o.platform, o.root)
	framework.WaitGone(t, o.platform, o.root)
}
