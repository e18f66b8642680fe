package kcp

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// kind is a kind of claim, and how its answer looks.
type kind struct {
	options  []gen.ClaimOption
	answered tenant.Answered
}

// Names of what furnish makes.
const (
	sharedClass = "shared" // backed by the platform's pool of that name
	sharedPool  = "common" // on the platform, for every tenant to name
	ownClass    = "own"    // backed by the pool of that name in each tenant
	fullPool    = "full"   // in each tenant, with no room but the holder's
	singlePool  = "single" // in each tenant, with room for one claim
)

var (
	bySharedClass = kind{[]gen.ClaimOption{gen.OfClass(sharedClass), gen.Length(28)}, tenant.Bound}
	bySharedPool  = kind{[]gen.ClaimOption{gen.FromPoolIn("root:ipam", sharedPool), gen.Length(28)}, tenant.Bound}
	byOwnClass    = kind{[]gen.ClaimOption{gen.OfClass(ownClass), gen.Length(28)}, tenant.Bound}
	byOwnPool     = kind{[]gen.ClaimOption{gen.FromPool(ownClass), gen.Length(28)}, tenant.Bound}
	ofFullPool    = kind{[]gen.ClaimOption{gen.FromPool(fullPool), gen.Length(28)}, refused}
	singleHeld    = kind{[]gen.ClaimOption{gen.FromPool(singlePool), gen.Length(28)}, tenant.Bound}
	singleWaiting = kind{singleHeld.options, refused}
	unanswered    = kind{bySharedClass.options, tenant.Stored}
)

func refused(claim *ipamv1alpha1.IPClaim) bool {
	answer := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	return answer != nil && answer.Reason == string(ipamv1alpha1.ReasonPoolExhausted)
}

// furnish makes the classes and the pools of ipam's side. The bare one needs none.
func (s *stage) furnish(ctx context.Context) error {
	platform, err := workspaces.NewClient(workspaces.At(s.Admin, "root:"+s.ipam.name))
	if err != nil {
		return err
	}
	for _, class := range []string{sharedClass, ownClass} {
		if err := platform.Create(ctx, gen.Class(class)); err != nil {
			return fmt.Errorf("create class %s: %w", class, err)
		}
	}
	shared := gen.Pool(sharedClass, gen.CIDR("10.0.0.0/8"), gen.Backs(sharedClass), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	common := gen.Pool(sharedPool, gen.CIDR("11.0.0.0/8"), gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:*"})
	for _, pool := range []*ipamv1alpha1.IPPool{shared, common} {
		if err := s.ipam.addPool(ctx, platform, pool, "0"); err != nil {
			return err
		}
	}
	if err := furnishNetworks(ctx, platform); err != nil {
		return err
	}
	for _, one := range s.ipam.tenants {
		if err := s.furnishTenant(ctx, one); err != nil {
			return fmt.Errorf("tenant %s: %w", one.Path, err)
		}
	}
	s.ipam.stay = []string{holder}
	return s.ipam.settled(ctx)
}

func (s *stage) furnishTenant(ctx context.Context, one *tenant.Tenant) error {
	for _, pool := range []struct {
		*ipamv1alpha1.IPPool
		allocated string
	}{
		{gen.Pool(ownClass, gen.CIDR("172.16.0.0/12"), gen.Backs(ownClass)), "0"},
		{gen.Pool(fullPool, gen.CIDR("192.168.0.0/28")), "16"},
		{gen.Pool(singlePool, gen.CIDR("192.168.1.0/28")), "0"},
	} {
		if err := s.ipam.addPool(ctx, one, pool.IPPool, pool.allocated); err != nil {
			return err
		}
	}
	_, err := one.Claim(ctx, holder, tenant.Bound, ofFullPool.options...)
	return err
}

func (s *side) addPool(ctx context.Context, c client.Client, pool *ipamv1alpha1.IPPool, allocated string) error {
	if err := c.Create(ctx, pool); err != nil {
		return fmt.Errorf("create pool %s: %w", pool.Name, err)
	}
	s.pools = append(s.pools, furnished{c, pool.Name, allocated})
	return nil
}

// Names of the classes of networks.
const (
	networkClass  = "network"  // a /48 for each network, of the platform's pool of that name
	locationClass = "location" // a /64 of it for each location
	endpointClass = "endpoint" // /96s of that
)

var (
	inKnownNetwork = kind{[]gen.ClaimOption{gen.OfClass(endpointClass), gen.Within("network", "known", "location", "ams")}, tenant.Bound}
	inNewNetwork   = kind{[]gen.ClaimOption{gen.OfClass(endpointClass), gen.Each(func() gen.ClaimOption {
		return gen.Within("network", tenant.NewName(), "location", "ams")
	})}, tenant.Bound}
)

// networks compares an interface of a network that has others, and the first one, for which the two levels above are made, with a
// flat claim and with the bare controller.
func (s *stage) networks() contest {
	known := s.claims("an interface of a known network", s.ipam, inKnownNetwork, 1)
	spacedKnown := s.spaced("an interface of a known network, a second apart", inKnownNetwork)
	ready := func(ctx context.Context) error {
		_, err := s.ipam.tenants[0].Claim(ctx, tenant.NewName(), tenant.Bound, inKnownNetwork.options...)
		return err
	}
	known.ready, spacedKnown.ready = ready, ready
	return contest{
		title: "1 client, interfaces of networks",
		contestants: []*contestant{
			s.claims("bare controller", s.bare, bySharedClass, 1),
			s.claims("a flat claim", s.ipam, bySharedClass, 1),
			known,
			s.claims("the first interface of a network", s.ipam, inNewNetwork, 1),
			spacedKnown,
			s.spaced("the first interface of a network, a second apart", inNewNetwork),
		},
		ratios: []ratio{
			{"known network / flat", 2, 1}, {"new network / flat", 3, 1}, {"known network / bare", 2, 0}, {"new network / bare", 3, 0},
			{"new / known network", 3, 2}, {"new / known network, a second apart", 5, 4},
		},
	}
}

// spaced returns a contestant of one client that claims once a second: kcp has written what follows one answer before the next claim.
func (s *stage) spaced(name string, k kind) *contestant {
	return &contestant{name: name, side: s.ipam, spaced: true, play: func(ctx context.Context, during time.Duration) (round, error) {
		var took []time.Duration
		turns := time.NewTicker(time.Second)
		defer turns.Stop()
		began := time.Now()
		for time.Since(began) < during {
			<-turns.C
			one, err := s.ipam.tenants[0].Claim(ctx, tenant.NewName(), k.answered, k.options...)
			if err != nil {
				return round{}, err
			}
			took = append(took, one)
		}
		return newRound(took, time.Since(began))
	}}
}

// furnishNetworks makes the classes of networks and their pool. What networks have of it stays for a while when their claims are gone.
func furnishNetworks(ctx context.Context, platform client.Client) error {
	v6 := gen.Family(ipamv1alpha1.IPv6)
	for _, object := range []client.Object{
		gen.Class(networkClass, v6, gen.DefaultLength(48), gen.PoolPer("project", "network")),
		gen.Class(locationClass, v6, gen.DefaultLength(64), gen.Below(networkClass), gen.PoolPer("project", "network", "location"), gen.Reserves(1, 0, 96)),
		gen.Class(endpointClass, v6, gen.DefaultLength(96), gen.Below(locationClass)),
		gen.Pool(networkClass, gen.CIDR("2001:db8::/32"), gen.Backs(networkClass), gen.Visible(ipamv1alpha1.VisibilityPlatform)),
	} {
		if err := platform.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s for networks: %w", object.GetName(), err)
		}
	}
	return nil
}
