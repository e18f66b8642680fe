package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Inside a pool, the strategy says which free block a new one is cut from: that of the pool for a claim that names it, that
// of the class for one by class. Here the free ones are, from below, a /26, a /25 and a /27.
func TestStrategy_InsidePool(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for i, row := range []struct {
		strategy ipamv1alpha1.Strategy
		want     string
	}{
		{ipamv1alpha1.FirstFit, "0.64/28"},       // the lowest
		{ipamv1alpha1.BestFit, "1.32/28"},        // of the smallest that fits
		{ipamv1alpha1.LeastUtilized, "0.128/28"}, // of the largest
	} {
		name, space := strings.ToLower(s.name+"-"+string(row.strategy)), fmt.Sprintf("10.%d.", i)
		pool := gen.Pool(name, gen.CIDR(ipamv1alpha1.CIDR(space+"0.0/23")), gen.Strategy(row.strategy), gen.Backs(name))
		framework.Create(t, s.platform, gen.Class(name, gen.Strategy(row.strategy)))
		framework.Create(t, s.tenant, pool)
		framework.WaitAllocated(t, s.tenant, pool, ipamv1alpha1.ReasonAllocationSucceeded)
		var holders []netip.Prefix
		for j, block := range []string{"0.0/26", "1.0/27", "1.64/26", "1.128/25"} {
			holder := gen.Claim(fmt.Sprintf("%s-%d", name, j), gen.FromPool(name), gen.Address(space+block))
			framework.Create(t, s.tenant, holder)
			framework.WaitBound(t, s.tenant, holder)
			holders = append(holders, blockOf(t, holder))
		}

		for _, by := range []gen.ClaimOption{gen.FromPool(name), gen.OfClass(name)} {
			claim := gen.Claim(name, by, gen.Length(28))
			framework.Create(t, s.tenant, claim)
			framework.WaitBound(t, s.tenant, claim)
			if got, want := claim.Status.AllocatedCIDR, space+row.want; got != want {
				t.Errorf("%s: claim %+v got %s; want %s", row.strategy, claim.Spec, got, want)
			}
			framework.Delete(t, s.tenant, claim)
			waitUnrecorded(t, s.tenant, claim.Name)
			waitHeld(t, s.tenant, pool, size(holders...))
		}
	}
}

// Among the pools behind a class, the strategy of the class says which is asked first, here by the share that is taken; the
// others follow when that has no room, those of its workspace before the platform's.
func TestStrategy_AcrossPools(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Strategy(ipamv1alpha1.LeastUtilized))
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

	const want = "bbbcbabbabbp"
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
}
