package index_test

import (
	"math/big"
	"net/netip"
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/index"
)

func TestAvailable_CountsTheFreeAddresses(t *testing.T) {
	power := func(n uint) *big.Int { return new(big.Int).Lsh(big.NewInt(1), n) }
	for _, tt := range []struct {
		window, held string
		total, want  *big.Int
	}{
		{"::/0", "10.0.0.0/8", power(128), power(128)},
		{"::/0", "::1/128", power(128), new(big.Int).Sub(power(128), big.NewInt(1))},
		{"::/0", "::/1", power(128), power(127)},
		{"::/0", "::/0", power(128), new(big.Int)},
		{"2001:db8::/64", "2001:db8::/65", power(64), power(63)},
		{"0.0.0.0/0", "::/0", power(32), power(32)},
		{"10.0.0.0/24", "10.0.0.9/32", big.NewInt(256), big.NewInt(255)},
		{"10.0.0.1/32", "10.0.0.0/8", big.NewInt(1), new(big.Int)},
	} {
		x := holding(tt.window, tt.held)
		if got := x.Available(); got.Cmp(tt.want) != 0 {
			t.Errorf("%s less %s: %v available, want %v", tt.window, tt.held, got, tt.want)
		}
		if got := x.Total(); got.Cmp(tt.total) != 0 {
			t.Errorf("%s: total %v", tt.window, got)
		}
	}
}

// If as many blocks are freed as are taken, the arenas keep their size.
func TestTake_ReusesNodes(t *testing.T) {
	x := index.New(cidr("2001:db8::/32"))
	churn := func() {
		var held []netip.Prefix
		for range 100 {
			p, _ := x.Find(64, index.LeastUtilized)
			x.Take(p)
			held = append(held, p)
		}
		for _, p := range held {
			x.Put(p)
		}
	}
	churn()
	before := x.Nodes()
	churn()
	if got := x.Nodes(); got != before {
		t.Errorf("%d nodes, before %d", got, before)
	}
	wantFree(t, x, "2001:db8::/32")
}

// A block becomes an inner node when another block is taken inside it, and a leaf again when the inner block is freed.
func TestTake_ReusesNodesInsideBlocks(t *testing.T) {
	window := cidr("2001:db8::/32")
	x, blocks := index.New(window), scattered(window, 64, 1000)
	takeAll(x, blocks)
	want := x.Nodes()
	want[0]++ // a block that contains another one is an inner node, and the other one has its leaf
	for range 2 {
		for _, p := range blocks {
			x.Take(netip.PrefixFrom(p.Addr(), 128))
			x.Put(netip.PrefixFrom(p.Addr(), 128))
		}
		if got := x.Nodes(); got != want {
			t.Errorf("%d inner nodes and leaves, want %d", got, want)
		}
	}
	if err := x.Check(); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// A block costs a leaf and a fork: 24 and 48 bytes.
func TestTake_Costs72BytesForABlock(t *testing.T) {
	const blocks, want = 20_000, 72
	for _, pool := range []struct {
		window netip.Prefix
		length int
	}{{cidr("10.0.0.0/8"), 32}, {cidr("2001:db8::/32"), 64}} {
		x := index.New(pool.window)
		takeAll(x, scattered(pool.window, pool.length, blocks))
		if got := x.Bytes(); got > blocks*want {
			t.Errorf("%v: %d bytes for %d blocks, want at most %d for each", pool.window, got, blocks, want)
		}
	}
}

// Many blocks are taken, so that the arenas have several chunks. The blocks are freed in another order, and nothing is
// left.
func TestTake_LeavesNothingBehindAfterManyPuts(t *testing.T) {
	const blocks = 20_000
	window := cidr("10.0.0.0/8")
	x, held := index.New(window), scattered(window, 32, blocks)
	takeAll(x, held)
	if err := x.Check(); err != nil {
		t.Errorf("Check: %v", err)
	}
	if got := x.Available().Int64(); got != 1<<24-blocks || x.Blocks() != blocks {
		t.Errorf("%d blocks, %d available", x.Blocks(), got)
	}
	if got := x.Overlapping(window); got != blocks {
		t.Errorf("%d blocks overlap the window, want %d", got, blocks)
	}
	slices.SortFunc(held, netip.Prefix.Compare)
	for _, p := range held {
		if x.Free(p) || !x.Put(p) || !x.Free(p) {
			t.Fatalf("%v was not held, or is not free", p)
		}
	}
	wantFree(t, x, "10.0.0.0/8")
}

func TestString_SpellsTheStrategyAsTheAPIDoes(t *testing.T) {
	for s, want := range map[index.Strategy]string{
		index.FirstFit: "FirstFit", index.BestFit: "BestFit", index.LeastUtilized: "LeastUtilized", 9: "Strategy(9)",
	} {
		if got := s.String(); got != want {
			t.Errorf("Strategy(%d).String() = %q, want %q", uint8(s), got, want)
		}
	}
}

// scattered returns n different prefixes of a length, spread without order over the first 24 bits below the window.
// That is the worst case for size and speed.
func scattered(window netip.Prefix, length, n int) []netip.Prefix {
	const mask = 1<<24 - 1
	out := make([]netip.Prefix, n)
	for i := range out {
		place := uint32(i) * 0x9E3779 & mask // this and the next line: each place once
		place = (place ^ place>>13) * 0xC2B2AF & mask
		place ^= place >> 11
		b := window.Addr().AsSlice()
		first := b[window.Bits()/8:]
		first[0], first[1], first[2] = byte(place>>16), byte(place>>8), byte(place)
		addr, _ := netip.AddrFromSlice(b)
		out[i] = netip.PrefixFrom(addr, length)
	}
	return out
}

func takeAll(x *index.Index, prefixes []netip.Prefix) {
	for _, p := range prefixes {
		x.Take(p)
	}
}
