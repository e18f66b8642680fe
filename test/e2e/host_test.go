package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A small pool gives out each of its addresses once, network and broadcast included; who
// comes next waits for one that is given back. The only length of the pool need not be said.
func TestHosts_FillAPool(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		cidr   ipamv1alpha1.CIDR
		length int32
		hosts  int
	}{
		"IPv4": {"10.50.1.0/29", 32, 8},
		"IPv6": {"2001:db8::/126", 128, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			pool := s.ownPool(gen.CIDR(row.cidr), gen.Lengths{Min: row.length, Max: row.length})
			var claims []*ipamv1alpha1.IPClaim
			for i := range row.hosts {
				claims = append(claims, gen.Claim(fmt.Sprintf("host-%d", i), gen.FromPool("own")))
				framework.Create(t, s.tenant, claims[i])
			}
			framework.WaitBound(t, s.tenant, claims...)
			given := map[netip.Addr]bool{}
			for _, claim := range claims {
				given[hostOf(t, s, claim)] = true
			}
			for addr := prefix(row.cidr).Addr(); prefix(row.cidr).Contains(addr); addr = addr.Next() {
				if !given[addr] {
					t.Errorf("%s was given to nobody", addr)
				}
			}

			next := gen.Claim("next", gen.FromPool("own"), gen.Length(row.length))
			framework.Create(t, s.tenant, next)
			framework.WaitAllocated(t, s.tenant, next, ipamv1alpha1.ReasonPoolExhausted)
			showsRefusal(t, next, `pool "own"`, false)
			waitHeld(t, s.tenant, pool, size(prefix(row.cidr)))
			if status := pool.Status; status.Phase != ipamv1alpha1.PoolExhausted || *status.UtilizationPercent != 100 || status.LargestFreePrefix != nil {
				t.Errorf("the status of a full pool is %+v", status)
			}
			framework.Delete(t, s.tenant, claims[1])
			framework.WaitBound(t, s.tenant, next)
			if got, want := hostOf(t, s, next), claims[1].Status.Address; got.String() != want {
				t.Errorf("the next host got %s; want %s, which was given back", got, want)
			}
		})
	}
}

// hostOf is the one address of a bound claim, which its record shows as well.
func hostOf(t *testing.T, s scene, claim *ipamv1alpha1.IPClaim) netip.Addr {
	t.Helper()
	block, record := blockOf(t, claim), recordOf(t, s.tenant, claim)
	if !block.IsSingleIP() || claim.Status.Address != block.Addr().String() || record.Status.Address != claim.Status.Address {
		t.Errorf("claim %s got %s, address %q, recorded as %q; want one address, in its bare form",
			claim.Name, block, claim.Status.Address, record.Status.Address)
	}
	return block.Addr()
}
