package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/networks"
)

// cloud is a platform that offers networks, and a tenant with a network controller.
type cloud struct {
	*testing.T
	platform *framework.Platform
	tenant   *framework.Tenant
	*networks.Client
	authored []*ipamv1alpha1.IPPool
}

// dual are the options of a client that claims dual stack, and an address that no other network has.
var dual = networks.Options{
	Network: "vpc", Location: "subnet", Families: []string{"IPv6", "IPv4"}, Classes: []string{"public"},
}

// newCloud makes a platform with /48s, /64s and /96s, with IPv4 addresses that each network has for itself, and with
// flat classes.
func newCloud(t *testing.T) cloud {
	t.Helper()
	v6 := gen.Family(ipamv1alpha1.IPv6)
	vpc, subnet := gen.PoolPer("network", "project"), gen.PoolPer("network", "location", "project")
	c := cloud{T: t}
	c.platform = framework.NewPlatform(t).Reconfigured(t, "--derived-pool-idle=1s", "--sweep-interval=1s", "--orphan-min-age=1s")
	c.platform.StartController(t)
	framework.Create(t, c.platform,
		gen.Class("vpc", v6, gen.DefaultLength(48), vpc),
		gen.Class("subnet", v6, gen.DefaultLength(64), gen.Below("vpc"), subnet, gen.Reserves(1, 0, 96)),
		gen.Class("endpoint", v6, gen.DefaultLength(96), gen.Below("subnet"), gen.Default()),
		gen.Class("private", gen.DefaultLength(32), gen.UniqueWithin("network"), gen.Default()),
		gen.Class("public", gen.DefaultLength(32)),
		gen.Class("scarce", gen.DefaultLength(32), gen.Unmet(ipamv1alpha1.UnmetRefuse)),
		gen.Class("waiting", gen.DefaultLength(32), gen.Unmet(ipamv1alpha1.UnmetWait)),
		gen.Class("single", v6, gen.DefaultLength(48), vpc),
		gen.Class("half", v6, gen.DefaultLength(49), gen.Below("single"), subnet),
	)
	for class, cidr := range map[string]ipamv1alpha1.CIDR{
		"vpc": "2001:db8::/34", "private": "10.0.0.0/16", "public": "10.1.0.0/16", "single": "2001:db8:ffff::/48",
		"scarce": "192.0.2.0/32", "waiting": "192.0.2.1/32",
	} {
		c.authored = append(c.authored, platformPool(class, cidr, class))
	}
	for _, pool := range c.authored {
		framework.Allocate(t, c.platform, pool)
	}
	return c
}

// with returns the cloud with another tenant, whose network controller has these options.
func (c cloud) with(t *testing.T, options networks.Options) cloud {
	t.Helper()
	c.T, c.tenant = t, c.platform.Tenant(t)
	c.Client = c.client(options)
	framework.Eventually(t, "the classes to be ready for the tenant", c.Ready)
	for _, class := range []string{"endpoint", "private", "public", "scarce", "waiting", "half"} {
		serves(t, c.tenant, gen.OfClass(class), gen.Within("network", "probe", "location", "probe"))
	}
	return c
}

// client returns another network controller of the tenant.
func (c cloud) client(options networks.Options) *networks.Client {
	c.Helper()
	return must.Get(networks.New(c.tenant.Config(), options))(c)
}

// The networks client gets what it asks for in each request, and nothing of it is left in the end.
func TestNetworks_Client(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	t.Run("the life of a network", func(t *testing.T) { c.with(t, dual).theLifeOfANetwork() })
	t.Run("an interface is refused as a whole", func(t *testing.T) { c.with(t, dual).refusesAsAWhole() })
	t.Run("a full level", func(t *testing.T) { c.with(t, networks.Options{Network: "single", Location: "half"}).aFullLevel() })
	t.Run("all at once", func(t *testing.T) { c.with(t, dual).comeAndGo(8, 3) })
	c.hasNothingLeft()
}

// A network, a location and two interfaces are made from the outside in, and from the inside out, and are released
// from the inside out. Another network at that time has other IPv6 addresses, and the same IPv4 addresses.
func (c cloud) theLifeOfANetwork() {
	var all []built
	for name, order := range map[string][]string{"one": {"vpc", "subnet", "interfaces"}, "two": {"interfaces", "subnet", "vpc"}} {
		b := built{name: name}
		for _, step := range order {
			switch step {
			case "vpc":
				b.vpc = c.network(name)
			case "subnet":
				b.subnet = c.location(name, "ams")
			case "interfaces":
				b.interfaces = [][]networks.Claim{c.plug(name, "eth0"), c.plug(name, "eth1")}
			}
		}
		c.within(b)
		framework.WaitWhile(c, c.tenant, gen.Pool(b.subnet.Pool), "want one /96 reserved and two allocated", func(pool *ipamv1alpha1.IPPool) bool {
			return pool.Status.Capacity == nil || pool.Status.Capacity.Allocated != "12884901888"
		})
		if again := c.network(name); again != b.vpc {
			c.Errorf("the network is %+v at the second pass, want %+v", again, b.vpc)
		}
		for _, claim := range b.claims() {
			if err := c.Check(c.Context(), claim); err != nil {
				c.Error(err)
			}
		}
		for _, inside := range []networks.Claim{b.subnet, b.vpc} {
			err := c.ReleaseRange(c.Context(), inside)
			if refusal := isRefusal(c, err); refusal.Code != http.StatusConflict {
				c.Errorf("the release of a range with interfaces: %v, want 409", refusal)
			}
		}
		all = append(all, b)
	}
	one, two := all[0].interfaces[0], all[1].interfaces[0]
	if one[0].CIDR == two[0].CIDR || one[1].CIDR != two[1].CIDR || one[2].CIDR == two[2].CIDR {
		c.Errorf("the interfaces of two networks are %+v and %+v; want only their private IPv4 to be the same", one, two)
	}
	for _, b := range all {
		if err := c.raze(c.Context(), b); err != nil {
			c.Error(err)
		}
	}
	c.isEmpty()
}

// If one claim of an interface is refused, or is answered without a CIDR, the client releases the others.
func (c cloud) refusesAsAWhole() {
	for _, class := range []string{"scarce", "waiting"} {
		options := dual
		options.Classes = []string{class}
		greedy := c
		greedy.Client = c.client(options)
		held := greedy.plug("one", class+"-0")
		refused := func(err error) error {
			refusal, ok := errors.AsType[*networks.Refusal](err)
			switch {
			case class == "waiting" && errors.Is(err, networks.ErrUnanswered):
				return nil
			case ok && refusal.Code == http.StatusInsufficientStorage && refusal.Name == class && slices.Contains(refusal.Causes, "Exhausted"):
				return nil
			}
			return fmt.Errorf("an interface too many: %w; want no CIDR, or 507, Exhausted and the name of the pool", err)
		}
		framework.Eventually(c, "an interface too many to be refused", func(ctx context.Context) error {
			_, err := greedy.Interface(ctx, "one", "ams", class+"-1")
			return refused(err)
		})
		claims := &ipamv1alpha1.IPClaimList{}
		if err := c.tenant.List(c.Context(), claims); err != nil || len(claims.Items) != len(held) {
			c.Errorf("there are %d claims, %v; want the %d of the first interface", len(claims.Items), err, len(held))
		}
		if err := c.Release(c.Context(), held...); err != nil {
			c.Error(err)
		}
	}
	c.isEmpty()
}

// A refusal names a full root pool. It does not name a full pool of a lower level, because nobody could enlarge that.
func (c cloud) aFullLevel() {
	held := []networks.Claim{c.location("one", "ams"), c.location("one", "fra")}
	_, third := c.Location(c.Context(), "one", "lhr")
	_, second := c.Network(c.Context(), "two")
	for want, err := range map[string]error{"": third, "single": second} {
		refusal := isRefusal(c, err)
		if refusal.Code != http.StatusInsufficientStorage || refusal.Name != want || !slices.Contains(refusal.Causes, "Exhausted") {
			c.Errorf("the range is refused with %v; want 507, Exhausted and the name %q", refusal, want)
		}
	}
	c.leave(held...)
	c.isEmpty()
}

// isEmpty waits until the tenant has no object of the API.
func (c cloud) isEmpty() {
	c.Helper()
	framework.Eventually(c, "nothing to be left of the networks", func(ctx context.Context) error {
		claims, records, pools := &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPAllocationList{}, &ipamv1alpha1.IPPoolList{}
		for _, list := range []client.ObjectList{claims, records, pools} {
			if err := c.tenant.List(ctx, list); err != nil {
				return err
			}
		}
		if left := [3]int{len(claims.Items), len(records.Items), len(pools.Items)}; left != [3]int{} {
			return fmt.Errorf("there are %d claims, %d records and %d pools", left[0], left[1], left[2])
		}
		return nil
	})
}

// hasNothingLeft waits until nothing of the pools is allocated and no address space is left, stops the controller, and fails the test if its ledger has more than them.
func (c cloud) hasNothingLeft() {
	c.Helper()
	for _, pool := range c.authored {
		waitHeld(c.T, c.platform, pool, size())
		framework.WaitWhile(c, c.platform, pool, "it has address spaces", func(pool *ipamv1alpha1.IPPool) bool { return pool.Status.Spaces > 0 })
	}
	c.platform.WaitVerified(c)
	ids := map[string]bool{}
	for _, pool := range c.authored {
		ids["/ipam/v1/pools/"+string(pool.UID)] = true
	}
	c.platform.StopController(c)
	etcd := etcdtest.NewWith(c, embedetcd.Options{Dir: c.platform.LedgerDir()})
	for _, record := range etcdtest.CheckLedger(c, etcd.Client(), "/ipam/v1") {
		c.Errorf("the ledger has %s of %s, which is %s", record.Prefix, record.Claim, record.State)
	}
	left := must.Get(etcd.Client().Get(c.Context(), "/ipam/v1/pools/", clientv3.WithPrefix()))(c)
	for _, kv := range left.Kvs {
		if !ids[string(kv.Key)] {
			c.Errorf("the ledger has the pool %s: %s", kv.Key, kv.Value)
		}
	}
}

// isRefusal returns an error as a refusal, and fails the test if it is any other error.
func isRefusal(t testing.TB, err error) *networks.Refusal {
	t.Helper()
	refusal, ok := errors.AsType[*networks.Refusal](err)
	if !ok {
		t.Fatalf("got %v, want to be refused", err)
	}
	return refusal
}
