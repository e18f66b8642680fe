package e2e

import (
	"cmp"
	"fmt"
	"math/big"
	"net/netip"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// offer has the platform offer a pool to everybody, by a class of the pool's name,
// and waits until claims can have of it.
func offer(t *testing.T, platform *framework.Platform, name string, cidr ipamv1alpha1.CIDR, options ...gen.ClassOption) *ipamv1alpha1.IPPool {
	t.Helper()
	framework.Create(t, platform, gen.Class(name, options...))
	pool := platformPool(name, cidr, name)
	framework.Allocate(t, platform, pool)
	return pool
}

// platformPool is a pool for every workspace.
func platformPool(name string, cidr ipamv1alpha1.CIDR, classes ...string) *ipamv1alpha1.IPPool {
	return gen.Pool(name, gen.CIDR(cidr), gen.Backs(classes...), gen.Visible(ipamv1alpha1.VisibilityPlatform))
}

// waitHeld waits until the status of a pool shows exactly so many addresses taken, and
// all others available.
func waitHeld(t *testing.T, c client.Reader, pool *ipamv1alpha1.IPPool, addresses *big.Int) {
	t.Helper()
	framework.WaitFor(t, c, pool, func(pool *ipamv1alpha1.IPPool) error {
		block, err := netip.ParsePrefix(cmp.Or(string(pool.Spec.CIDR), pool.Status.AllocatedCIDR))
		if err != nil {
			return err
		}
		total := size(block)
		want := ipamv1alpha1.PoolCapacity{
			Total:     total.String(),
			Allocated: addresses.String(),
			Available: new(big.Int).Sub(total, addresses).String(),
		}
		if pool.Status.Capacity == nil || *pool.Status.Capacity != want {
			return fmt.Errorf("its capacity is not %+v", want)
		}
		return nil
	})
}

// part is the first block of that length in a CIDR.
func part(cidr ipamv1alpha1.CIDR, length int) ipamv1alpha1.CIDR {
	return ipamv1alpha1.CIDR(netip.PrefixFrom(prefix(cidr).Addr(), length).String())
}
