package main

import (
	"io"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// space is what is known of the blocks of a pool.
type space struct {
	pool netip.Prefix
	// taken are the blocks that the caller may see, kept those that are never handed out.
	taken, kept []netip.Prefix
}

// spaceOf is the space of a pool with the blocks that the caller may see.
func spaceOf(pool *ipamv1alpha1.IPPool, held []holding) (space, error) {
	block, err := netip.ParsePrefix(pool.Status.AllocatedCIDR)
	if err != nil {
		return space{}, err
	}
	s := space{pool: block, kept: keptBack(block, pool.Spec)}
	for _, h := range held {
		s.taken = append(s.taken, h.block)
	}
	return s, nil
}

// The map is drawn in so many columns and rows, powers of two; in fewer columns and more rows
// where lines are short.
const (
	mapColumns = 64
	mapRows    = 8
)

// cell is how much of a part of the pool is taken or kept back, 0 to 1.
type cell struct{ taken, kept float64 }

func (c cell) String() string {
	switch {
	case c.kept >= 1:
		return "×"
	case c.taken+c.kept >= 1:
		return "█"
	case c.taken+c.kept > 0.5:
		return "▓"
	case c.taken+c.kept > 0:
		return "░"
	default:
		return "·"
	}
}

// cellBits is the prefix length of a cell of the map.
func (s space) cellBits() int {
	return min(s.pool.Bits()+int(math.Log2(mapColumns*mapRows)), s.pool.Addr().BitLen())
}

// cells are the parts of the pool in order.
func (s space) cells() []cell {
	bits := s.cellBits()
	cells := make([]cell, 1<<(bits-s.pool.Bits()))
	for _, block := range s.taken {
		s.spread(block, func(i int, share float64) { cells[i].taken += share })
	}
	for _, block := range s.kept {
		s.spread(block, func(i int, share float64) { cells[i].kept += share })
	}
	return cells
}

// spread calls add for each cell that a block of the pool touches, with its share of it.
func (s space) spread(block netip.Prefix, add func(cell int, share float64)) {
	if !block.Overlaps(s.pool) || block.Bits() < s.pool.Bits() {
		return
	}
	bits := s.cellBits()
	distance := new(big.Int).Sub(number(block.Addr()), number(s.pool.Addr()))
	first := int(distance.Rsh(distance, uint(block.Addr().BitLen()-bits)).Int64())
	if block.Bits() >= bits {
		add(first, math.Exp2(float64(bits-block.Bits())))
		return
	}
	for i := range 1 << (bits - block.Bits()) {
		add(first+i, 1)
	}
}

// columns is how many cells of the map fit into a line of this width, beside its first address;
// a width of 0 is not limited.
func (s space) columns(width int) int {
	const least = 8
	columns, head := mapColumns, len("    ")+len(netipx.PrefixLastIP(s.pool).String())
	for width > 0 && columns > least && head+columns > width {
		columns /= 2
	}
	return columns
}

// draw writes the map: a line for each row, led by its first address.
func (s space) draw(w io.Writer, lineWidth int) {
	cells, bits, columns := s.cells(), s.cellBits(), s.columns(lineWidth)
	printLine(w, "each sign is a /%d: █ taken, ▓ ░ in part, × kept back, · free or not shown to you", bits)
	heads := make([]string, 0, mapRows)
	for at := 0; at < len(cells); at += columns {
		heads = append(heads, s.address(at).String())
	}
	width := len(slices.MaxFunc(heads, func(a, b string) int { return len(a) - len(b) }))
	for i, head := range heads {
		var line strings.Builder
		for _, c := range cells[i*columns : min((i+1)*columns, len(cells))] {
			line.WriteString(c.String())
		}
		printLine(w, "  %-*s  %s", width, head, line.String())
	}
}

// address is the first one of a cell.
func (s space) address(cell int) netip.Addr {
	offset := new(big.Int).Lsh(big.NewInt(int64(cell)), uint(s.pool.Addr().BitLen()-s.cellBits()))
	return address(offset.Add(offset, number(s.pool.Addr())), s.pool.Addr())
}

// known is the number of addresses that are taken or kept back, as far as is seen.
func (s space) known() *big.Int {
	var all netipx.IPSetBuilder
	for _, block := range slices.Concat(s.taken, s.kept) {
		all.AddPrefix(block)
	}
	total := new(big.Int)
	set, err := all.IPSet()
	if err != nil {
		return total // only of ranges that are none
	}
	for _, block := range set.Prefixes() {
		total.Add(total, cidr.Size(block))
	}
	return total
}

// unseen is the number of addresses that others hold of a pool, by its figures. It is
// below zero if its figures do not count the latest blocks yet.
func (s space) unseen(capacity *ipamv1alpha1.PoolCapacity) *big.Int {
	taken, ok := new(big.Int).SetString(capacity.Allocated, 10)
	if !ok {
		return new(big.Int)
	}
	taken.Sub(taken, coolingOf(capacity)) // it is counted by itself, and nobody's
	return taken.Sub(taken, s.known())
}

// keptBack are the blocks of a pool that are never handed out.
func keptBack(pool netip.Prefix, spec ipamv1alpha1.IPPoolSpec) []netip.Prefix {
	return append(excludedOf(spec), edgesOf(pool, spec)...)
}

// excludedOf are the blocks that a pool excludes by name.
func excludedOf(spec ipamv1alpha1.IPPoolSpec) []netip.Prefix {
	var excluded []netip.Prefix
	for _, text := range spec.ExcludedCIDRs {
		if prefix, err := netip.ParsePrefix(string(text)); err == nil {
			excluded = append(excluded, prefix)
		}
	}
	return excluded
}

// edgesOf are the blocks that a pool reserves at its two edges.
func edgesOf(pool netip.Prefix, spec ipamv1alpha1.IPPoolSpec) []netip.Prefix {
	var kept []netip.Prefix
	edges := spec.Reservations
	if edges == nil || int(edges.UnitPrefixLength) < pool.Bits() || int(edges.UnitPrefixLength) > pool.Addr().BitLen() {
		return kept
	}
	unit := cidr.Size(netip.PrefixFrom(pool.Addr(), int(edges.UnitPrefixLength)))
	first, last := number(pool.Addr()), number(netipx.PrefixLastIP(pool))
	one := big.NewInt(1)
	if edges.Leading > 0 {
		end := new(big.Int).Mul(unit, big.NewInt(int64(edges.Leading)))
		kept = append(kept, blocks(first, end.Add(end, first).Sub(end, one), pool)...)
	}
	if edges.Trailing > 0 {
		start := new(big.Int).Mul(unit, big.NewInt(int64(edges.Trailing)))
		kept = append(kept, blocks(start.Sub(last, start).Add(start, one), last, pool)...)
	}
	return kept
}

// blocks are the prefixes that make up the addresses from first to last of a pool.
func blocks(first, last *big.Int, pool netip.Prefix) []netip.Prefix {
	from, to := address(first, pool.Addr()), address(last, pool.Addr())
	if !pool.Contains(from) {
		from = pool.Addr()
	}
	if !pool.Contains(to) {
		to = netipx.PrefixLastIP(pool)
	}
	return netipx.IPRangeFrom(from, to).Prefixes()
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// address is the one of that number, of the same family as like; the zero Addr for
// a number that is none.
func address(n *big.Int, like netip.Addr) netip.Addr {
	if n.Sign() < 0 || n.BitLen() > like.BitLen() {
		return netip.Addr{}
	}
	found, _ := netip.AddrFromSlice(n.FillBytes(make([]byte, like.BitLen()/8)))
	return found
}
