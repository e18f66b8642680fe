package plan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The pool found for a block is the smallest that contains it. If several pools have the same CIDR, it is the first.
// The index finds the same as a comparison with all pools, which would take minutes for a large plan.
func TestFind_FindsTheSmallestPool(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	within := func(shortest int) netip.Prefix {
		ip := netip.AddrFrom4([4]byte{10, 0, byte(random.IntN(4)), byte(random.IntN(256))})
		if random.IntN(3) == 0 {
			ip = netip.AddrFrom16([16]byte{0x20, 0x01, 15: byte(random.IntN(256))})
		}
		return netip.PrefixFrom(ip, ip.BitLen()-random.IntN(ip.BitLen()-shortest+1)).Masked()
	}
	p := &Plan{}
	for i := range 40 {
		block := within(20)
		p.Pools = append(p.Pools, Pool{IPPool: gen.Pool(fmt.Sprint("p", i), gen.CIDR(ipamv1alpha1.CIDR(block.String()))), block: block})
	}
	found := p.index()
	missed := 0
	for range 2000 {
		block := within(1)
		want, most := "", -1
		for _, pool := range p.Pools {
			if outer := netip.MustParsePrefix(string(pool.Spec.CIDR)); contains(outer, block) && outer.Bits() > most {
				want, most = pool.Name, outer.Bits()
			}
		}
		got, ok := found.find("", block)
		if ok != (want != "") || ok && got.Name != want {
			t.Fatalf("find(%s) = %v, %t; want %q", block, got.IPPool, ok, want)
		}
		if !ok {
			missed++
		}
	}
	if missed == 0 || missed == 2000 {
		t.Errorf("%d of 2000 blocks are in no pool; want some, and not all", missed)
	}
}
