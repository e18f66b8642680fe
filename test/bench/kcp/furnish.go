package kcp

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// kind is a kind of claim, with the function that recognizes its answer.
type kind struct {
	options  []gen.ClaimOption
	answered tenant.Answered
}

// sharedClass is a class, and the name of the platform's pool behind it.
const sharedClass = "shared"

var (
	bySharedClass = kind{[]gen.ClaimOption{gen.OfClass(sharedClass), gen.Length(28)}, tenant.Bound}
	unanswered    = kind{bySharedClass.options, tenant.Stored}
)

// furnish makes the classes and the pools of ipam's side. The bare side needs none.
func (s *stage) furnish(ctx context.Context) error {
	platform, err := workspaces.NewClient(workspaces.At(s.Admin, "root:"+s.ipam.name))
	if err != nil {
		return err
	}
	s.ipam.platform = platform
	shown := gen.Visible(ipamv1alpha1.VisibilityPlatform)
	for _, object := range slices.Concat(
		[]client.Object{gen.Class(sharedClass), gen.Pool(sharedClass, gen.CIDR("10.0.0.0/8"), gen.Backs(sharedClass), shown)},
		chain(apart, gen.Pool(string(apart), gen.CIDR("2001:db8::/32"), gen.Backs(string(apart)), shown)), // a network keeps its blocks for a while
		chain(overlapping, gen.Pool(string(overlapping), gen.CIDR("3fff::/32"), gen.Backs(string(overlapping)), shown), gen.UniqueWithin("network")),
	) {
		if err := platform.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	return retry.Do(ctx, patience, "wait for the pool to be as it was", s.ipam.cleaned)
}

// chained is a chain of classes, named by its first class: a /48 for each network, a /64 of that for each location,
// and /96s of the /64.
type chained string

const (
	apart       chained = "network"     // networks of one pool
	overlapping chained = "overlapping" // networks that all have the same CIDR
)

// chain returns the classes of a chain, and its pool. The options are for the first class.
func chain(c chained, pool *ipamv1alpha1.IPPool, options ...gen.ClassOption) []client.Object {
	v6, name := gen.Family(ipamv1alpha1.IPv6), string(c)
	return []client.Object{
		gen.Class(name, append(options, v6, gen.DefaultLength(48), gen.PoolPer("project", "network"))...),
		gen.Class(name+"-location", v6, gen.DefaultLength(64), gen.Below(name), gen.PoolPer("project", "network", "location"), gen.Reserves(1, 0, 96)),
		gen.Class(name+"-endpoint", v6, gen.DefaultLength(96), gen.Below(name+"-location")),
		pool,
	}
}

// known returns an interface of a network that has others. first returns the first interface of a new network.
func (c chained) known() kind {
	return kind{[]gen.ClaimOption{gen.OfClass(string(c) + "-endpoint"), gen.Within("network", "known", "location", "ams")}, tenant.Bound}
}

func (c chained) first() kind {
	return kind{[]gen.ClaimOption{gen.OfClass(string(c) + "-endpoint"), gen.Each(func() gen.ClaimOption {
		return gen.Within("network", tenant.NewName(), "location", "ams")
	})}, tenant.Bound}
}

// networks compares three claims: a flat claim, an interface of a network that has others, and the first interface of
// a network, for which the two levels above are made. It measures both interfaces also for networks that have the
// same CIDR, each in an address space of its own.
func (s *stage) networks() contest {
	within := func(of *contestant, c chained) *contestant {
		of.ready = func(ctx context.Context) error {
			_, err := s.ipam.tenants[0].Claim(ctx, tenant.NewName(), tenant.Bound, c.known().options...)
			return err
		}
		return of
	}
	return contest{
		title: "1 client, interfaces of networks",
		contestants: []*contestant{
			s.claims("a flat claim", s.ipam, bySharedClass, 1),
			within(s.claims("an interface of a known network", s.ipam, apart.known(), 1), apart),
			s.claims("the first interface of a network", s.ipam, apart.first(), 1),
			within(s.spaced("an interface of a known network, a second apart", apart.known()), apart),
			s.spaced("the first interface of a network, a second apart", apart.first()),
			within(s.claims("an interface of a known overlapping network", s.ipam, overlapping.known(), 1), overlapping),
			s.claims("the first interface of an overlapping network", s.ipam, overlapping.first(), 1),
			s.spaced("a flat claim, a second apart", bySharedClass),
			s.spaced("the first interface of an overlapping network, a second apart", overlapping.first()),
		},
		ratios: []ratio{
			{"known network / flat", 1, 0}, {"new network / flat", 2, 0},
			{"new / known network", 2, 1}, {"new / known network, a second apart", 4, 3},
			{"new network / flat, a second apart", 4, 7}, {"new overlapping network / flat, a second apart", 8, 7},
			{"known overlapping network / flat", 5, 0}, {"new overlapping network / flat", 6, 0}, {"new overlapping / new network", 6, 2},
		},
	}
}

// spaced returns a contestant of one client that makes a claim once a second. So kcp has written all that follows an
// answer before the next claim.
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
