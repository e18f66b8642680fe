package e2e

import (
	"fmt"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

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
		framework.Allocate(t, s.tenant, pool)
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
