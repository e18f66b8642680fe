package space_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kcp-ipam/ipam/allocator/golden"
	"github.com/kcp-ipam/ipam/allocator/index"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// Next returns the blocks that the allocator would find, one after another.
func TestNext_AgreesWithTheAllocator(t *testing.T) {
	t.Parallel()
	strategies := map[ipamv1alpha1.Strategy]index.Strategy{
		ipamv1alpha1.FirstFit: index.FirstFit, ipamv1alpha1.BestFit: index.BestFit, ipamv1alpha1.LeastUtilized: index.LeastUtilized,
	}
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		for _, window := range []string{"10.64.0.0/20", "2001:db8::/116"} {
			for strategy, same := range strategies {
				s := space.Space{Pool: netip.MustParsePrefix(window)}
				ledger := golden.New(s.Pool)
				fill(random, &s, ledger)
				length := s.Pool.Bits() + 2 + random.IntN(7)
				got, want := s.Next(length, 5, strategy), found(ledger, length, 5, same)
				if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
					t.Fatalf("seed %d: Next(/%d, 5, %s) of %s (-allocator +got):\n%s", seed, length, strategy, window, diff)
				}
				if diff := cmp.Diff(slices.Collect(ledger.FreeBlocks()), s.Free(), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
					t.Fatalf("seed %d: Free() of %s (-allocator +got):\n%s", seed, window, diff)
				}
			}
		}
	}
}

// fill marks the same random blocks as taken or kept in a space and in the allocator's index.
func fill(random *rand.Rand, s *space.Space, ledger *golden.Index) {
	for range random.IntN(30) {
		length := s.Pool.Bits() + 3 + random.IntN(9)
		block, ok := ledger.Find(length, index.Strategy(random.IntN(3)))
		switch {
		case !ok:
		case random.IntN(4) == 0:
			ledger.Exclude(block)
			s.Kept = append(s.Kept, block)
		default:
			ledger.Take(block)
			s.Taken = append(s.Taken, block)
		}
	}
}

// found takes blocks from the allocator's index until it has count blocks, or there are no more.
func found(ledger *golden.Index, length, count int, strategy index.Strategy) []netip.Prefix {
	free := slices.Collect(ledger.FreeBlocks())
	var blocks []netip.Prefix
	for range count {
		block, ok := ledger.Find(length, strategy)
		if !ok {
			break
		}
		ledger.Take(block)
		blocks = append(blocks, block)
	}
	for _, block := range blocks {
		ledger.Put(block)
	}
	if !slices.Equal(free, slices.Collect(ledger.FreeBlocks())) {
		panic("the index is not as before")
	}
	return blocks
}

// If no block of the pool can have the length, there is no next block.
func TestNext_ReturnsNoneForAnImpossibleLength(t *testing.T) {
	t.Parallel()
	s := space.Space{Pool: netip.MustParsePrefix("192.0.2.0/24")}
	for _, length := range []int{23, 33} {
		if got := s.Next(length, 3, ipamv1alpha1.FirstFit); got != nil {
			t.Errorf("Next(/%d) = %v, want none", length, got)
		}
	}
}
