package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// mostTenants is for how many a pool of their own has room in 172.16.0.0/12.
const mostTenants = 256

// Names of the classes, of the pools behind them, and of each tenant's own pool. No two
// pools overlap, so that the history can compare all claims with each other.
const (
	hosts  = "hosts"
	blocks = "blocks"
	six    = "six"
	scarce = "scarce" // has room for a few claims, and many wait
	own    = "own"
)

// scarceRoom is for how many claims the scarce pool has room.
const scarceRoom = 8

// furnish makes the classes and the pools of the platform.
func (s *stage) furnish(ctx context.Context) error {
	c, err := workspaces.NewClient(workspaces.At(s.Admin, platform))
	if err != nil {
		return err
	}
	for _, offer := range []struct {
		name   string
		cidr   ipamv1alpha1.CIDR
		family ipamv1alpha1.IPFamily
	}{
		{hosts, "10.0.0.0/16", ipamv1alpha1.IPv4},
		{blocks, "10.64.0.0/12", ipamv1alpha1.IPv4},
		{scarce, "192.168.0.0/29", ipamv1alpha1.IPv4},
		{six, "2001:db8::/40", ipamv1alpha1.IPv6},
	} {
		class := gen.Class(offer.name, gen.Family(offer.family))
		pool := gen.Pool(offer.name, gen.CIDR(offer.cidr), gen.Backs(offer.name), gen.Visible(ipamv1alpha1.VisibilityPlatform))
		for _, object := range []client.Object{class, pool} {
			if err := c.Create(ctx, object); err != nil {
				return fmt.Errorf("make %s: %w", offer.name, err)
			}
		}
	}
	return nil
}

// tenant is a workspace, and a user of it who is no admin of kcp.
type tenant struct {
	client.Client
	*stage
	path   string
	random *rand.Rand   // of the one who is at work
	own    netip.Prefix // what its own pool has
	made   int          // claims so far
	held   []held
}

// newTenant makes a tenant, its user, and its own pool.
func (s *stage) newTenant(ctx context.Context, i int) (*tenant, error) {
	t := &tenant{
		stage: s, path: fmt.Sprintf("root:tenant-%d", i+1),
		random: rand.New(rand.NewPCG(s.seed, uint64(i))), //nolint:gosec // it has to be repeatable
		own:    netip.PrefixFrom(netip.AddrFrom4([4]byte{172, byte(16 + i/16), byte(i % 16 * 16), 0}), 20),
	}
	cluster, err := workspaces.EnsureTenant(ctx, s.Admin, workspaces.TenantOptions{Workspace: t.path, Platform: platform})
	if err != nil {
		return nil, err
	}
	s.history.Include(cluster.String())
	if t.Client, err = s.NewUser(ctx, t.path); err != nil {
		return nil, err
	}
	pool := gen.Pool(own, gen.CIDR(ipamv1alpha1.CIDR(t.own.String())))
	return t, retry.Do(ctx, patience, "make a pool in "+t.path, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(t.Create(ctx, pool)) // until kcp knows that the user may
	})
}

// held is a claim that is bound.
type held struct {
	name   string
	retain bool
}

// next draws the next claim.
func (t *tenant) next() *ipamv1alpha1.IPClaim {
	t.made++
	name := fmt.Sprint("c", t.made)
	switch t.random.IntN(13) {
	case 0, 1, 2, 3:
		return gen.Claim(name, gen.OfClass(hosts), gen.Length(32))
	case 4, 5, 6:
		return gen.Claim(name, gen.OfClass(blocks), gen.Length(int32(26+t.random.IntN(5))))
	case 7:
		return gen.Claim(name, gen.OfClass(six), gen.Length(64))
	case 8:
		return gen.Claim(name, gen.OfClass(six), gen.Length(128))
	case 9, 10:
		return gen.Claim(name, gen.FromPool(own), gen.Length(int32(28+t.random.IntN(3))))
	case 11:
		return gen.Claim(name, gen.FromPool(own), gen.Address(t.exactly()))
	default:
		return gen.Claim(name, gen.OfClass(hosts), gen.Length(32), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	}
}

// exactly is an address in the upper half of the tenant's own pool, from which no other
// claim takes anything: its lower half is never full.
func (t *tenant) exactly() string {
	at := t.own.Addr().As4()
	n := t.made % 2048
	at[2] += 8 + byte(n>>8)
	at[3] = byte(n)
	return netip.AddrFrom4(at).String()
}
