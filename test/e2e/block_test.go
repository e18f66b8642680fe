package e2e

import (
	"math/big"
	"net/netip"
	"slices"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// blockOf is the block that a bound claim shows.
func blockOf(t *testing.T, claim *ipamv1alpha1.IPClaim) netip.Prefix {
	t.Helper()
	block, err := netip.ParsePrefix(claim.Status.AllocatedCIDR)
	if err != nil {
		t.Fatalf("allocatedCIDR of claim %s: %v", claim.Name, err)
	}
	if block.String() != claim.Status.AllocatedCIDR || block != block.Masked() {
		t.Errorf("allocatedCIDR of claim %s is %s; want it canonical: %s", claim.Name, claim.Status.AllocatedCIDR, block.Masked())
	}
	return block
}

// disjointIn fails the test unless the blocks are all inside the pool and share no address.
func disjointIn(t *testing.T, cidr ipamv1alpha1.CIDR, blocks ...netip.Prefix) {
	t.Helper()
	pool := prefix(cidr)
	blocks = slices.SortedFunc(slices.Values(blocks), netip.Prefix.Compare)
	for i, block := range blocks {
		if !pool.Contains(block.Addr()) || block.Bits() < pool.Bits() {
			t.Errorf("%s is not inside %s", block, pool)
		}
		if i > 0 && blocks[i-1].Overlaps(block) {
			t.Errorf("%s and %s are both given out", blocks[i-1], block)
		}
	}
}

func prefix(cidr ipamv1alpha1.CIDR) netip.Prefix { return netip.MustParsePrefix(string(cidr)) }

// size is the number of addresses in the blocks.
func size(blocks ...netip.Prefix) *big.Int {
	sum := new(big.Int)
	for _, block := range blocks {
		sum.Add(sum, cidr.Size(block))
	}
	return sum
}
