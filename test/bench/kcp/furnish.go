package kcp

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// kind is a kind of claim, and how its answer looks.
type kind struct {
	options  []gen.ClaimOption
	answered tenant.Answered
}

// sharedClass is backed by the platform's pool of that name.
const sharedClass = "shared"

var (
	bySharedClass = kind{[]gen.ClaimOption{gen.OfClass(sharedClass), gen.Length(28)}, tenant.Bound}
	unanswered    = kind{bySharedClass.options, tenant.Stored}
)

// furnish makes the classes and the pools of ipam's side. The bare one needs none.
func (s *stage) furnish(ctx context.Context) error {
	platform, err := workspaces.NewClient(workspaces.At(s.Admin, "root:"+s.ipam.name))
	if err != nil {
		return err
	}
	s.ipam.platform = platform
	v6, shown := gen.Family(ipamv1alpha1.IPv6), gen.Visible(ipamv1alpha1.VisibilityPlatform)
	for _, object := range []client.Object{
		gen.Class(sharedClass),
		gen.Pool(sharedClass, gen.CIDR("10.0.0.0/8"), gen.Backs(sharedClass), shown),
		gen.Class(networkClass, v6, gen.DefaultLength(48), gen.PoolPer("project", "network")),
		gen.Class(locationClass, v6, gen.DefaultLength(64), gen.Below(networkClass), gen.PoolPer("project", "network", "location"), gen.Reserves(1, 0, 96)),
		gen.Class(endpointClass, v6, gen.DefaultLength(96), gen.Below(locationClass)),
		gen.Pool(networkClass, gen.CIDR("2001:db8::/32"), gen.Backs(networkClass), shown), // a network keeps its blocks for a while
	} {
		if err := platform.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	return retry.Do(ctx, patience, "wait for the pool to be as it was", s.ipam.cleaned)
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
// flat claim.
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
			s.claims("a flat claim", s.ipam, bySharedClass, 1),
			known,
			s.claims("the first interface of a network", s.ipam, inNewNetwork, 1),
			spacedKnown,
			s.spaced("the first interface of a network, a second apart", inNewNetwork),
		},
		ratios: []ratio{
			{"known network / flat", 1, 0}, {"new network / flat", 2, 0},
			{"new / known network", 2, 1}, {"new / known network, a second apart", 4, 3},
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
