package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Inside a pool, the strategy says which free block a new one is cut from. Here the free
// ones are, from below, a /26, a /25 and a /27.
func TestStrategy_InsidePool(t *testing.T) {
	t.Parallel()
	for strategy, want := range map[ipamv1alpha1.Strategy]string{
		ipamv1alpha1.FirstFit:      "10.0.0.64/28",  // the lowest
		ipamv1alpha1.BestFit:       "10.0.1.32/28",  // of the smallest that fits
		ipamv1alpha1.LeastUtilized: "10.0.0.128/28", // of the largest
	} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.class(gen.Strategy(strategy))
			pool := s.ownPool(gen.CIDR("10.0.0.0/23"), gen.Strategy(strategy), gen.Backs(s.name))
			var holders []netip.Prefix
			for i, block := range []string{"10.0.0.0/26", "10.0.1.0/27", "10.0.1.64/26", "10.0.1.128/25"} {
				holders = append(holders, blockOf(t, s.holds(fmt.Sprintf("holder-%d", i), gen.Address(block))))
			}
			byPool, byClass := gen.Claim("by-pool", gen.FromPool("own"), gen.Length(28)), gen.Claim("by-class", gen.OfClass(s.name), gen.Length(28))
			for _, claim := range []*ipamv1alpha1.IPClaim{byPool, byClass} {
				framework.Create(t, s.tenant, claim)
				framework.WaitBound(t, s.tenant, claim)
				if got := claim.Status.AllocatedCIDR; got != want {
					t.Errorf("claim %s got %s; want %s", claim.Name, got, want)
				}
				waitHeld(t, s.tenant, pool, size(append(holders, blockOf(t, claim))...))
				framework.Delete(t, s.tenant, claim)
				waitHeld(t, s.tenant, pool, size(holders...))
			}
		})
	}
}

// Among the pools behind a class, the strategy of the class says which is asked first; the
// others follow when that has no room, those of the own workspace before the platform's.
func TestStrategy_AcrossPools(t *testing.T) {
	t.Parallel()
	for strategy, want := range map[ipamv1alpha1.Strategy]string{
		ipamv1alpha1.FirstFit:      "aabbbbbbbbcp", // by name
		ipamv1alpha1.BestFit:       "caabbbbbbbbp", // by the smallest free block that fits
		ipamv1alpha1.LeastUtilized: "bbbcbabbabbp", // by the share that is taken
	} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.class(gen.Strategy(strategy))
			s.pool(part(s.cidr, 24))
			for _, pool := range []*ipamv1alpha1.IPPool{
				// Free are two /26 of four, eight of eight, and one and a half of two.
				gen.Pool("a", gen.CIDR("10.1.0.0/24"), gen.Backs(s.name), gen.Excludes("10.1.0.0/25")),
				gen.Pool("b", gen.CIDR("10.2.0.0/23"), gen.Backs(s.name)),
				gen.Pool("c", gen.CIDR("10.3.0.0/25"), gen.Backs(s.name), gen.Excludes("10.3.0.96/27")),
			} {
				framework.Create(t, s.tenant, pool)
				framework.WaitAllocated(t, s.tenant, pool, ipamv1alpha1.ReasonAllocationSucceeded)
				serves(t, s.tenant, gen.FromPool(pool.Name))
			}
			got := ""
			for i := range len(want) {
				from := s.holds(fmt.Sprintf("claim-%d", i), gen.Length(26)).Status.PoolRef
				if from.ProjectRef != nil {
					from.Name = "p"
				}
				got += from.Name
			}
			if got != want {
				t.Errorf("the claims were served by pools %s in turn; want %s, with the platform's last", got, want)
			}
		})
	}
}
