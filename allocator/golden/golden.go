// Package golden gives the same answers as package index, from a plain sorted list: slowly, and obviously. It is for
// tests only.
package golden

import (
	"iter"
	"math/big"
	"net/netip"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// Index has the methods of index.Index, with the same meaning, and some more that list its content.
type Index struct {
	window   netip.Prefix
	held     []netip.Prefix // sorted; a prefix held twice is there twice
	excluded []netip.Prefix // sorted, each once
}

// New returns an index of a window that is free all over.
func New(window netip.Prefix) *Index { return &Index{window: window.Masked()} }

// Window is the window.
func (x *Index) Window() netip.Prefix { return x.window }

// Take marks p as held.
func (x *Index) Take(p netip.Prefix) {
	if x.window.Overlaps(p) {
		x.held = insert(x.held, p.Masked())
	}
}

// Put undoes one Take of p and reports whether p was held.
func (x *Index) Put(p netip.Prefix) (ok bool) {
	x.held, ok = remove(x.held, p.Masked())
	return ok
}

// Exclude marks p as excluded.
func (x *Index) Exclude(p netip.Prefix) {
	if x.window.Overlaps(p) && !slices.Contains(x.excluded, p.Masked()) {
		x.excluded = insert(x.excluded, p.Masked())
	}
}

// Include undoes Exclude of p and reports whether p was excluded.
func (x *Index) Include(p netip.Prefix) (ok bool) {
	x.excluded, ok = remove(x.excluded, p.Masked())
	return ok
}

// Free reports whether the whole of p is free and inside the window.
func (x *Index) Free(p netip.Prefix) bool {
	inside := x.window.Overlaps(p) && p.Bits() >= x.window.Bits()
	return inside && !slices.ContainsFunc(x.taken(), p.Overlaps)
}

// FreeBlocks yields the free blocks in address order.
func (x *Index) FreeBlocks() iter.Seq[netip.Prefix] {
	if !x.window.IsValid() {
		return slices.Values([]netip.Prefix{})
	}
	return slices.Values(freeBlocks(x.window, x.taken()))
}

// freeBlocks returns the fewest prefixes that make up the part of p outside taken.
func freeBlocks(p netip.Prefix, taken []netip.Prefix) []netip.Prefix {
	var within []netip.Prefix
	for _, t := range taken {
		if t.Overlaps(p) && t.Bits() <= p.Bits() {
			return nil
		}
		if t.Overlaps(p) {
			within = append(within, t)
		}
	}
	if len(within) == 0 {
		return []netip.Prefix{p}
	}
	low, high := halves(p)
	return append(freeBlocks(low, within), freeBlocks(high, within)...)
}

// Find proposes a free prefix.
func (x *Index) Find(length int, s index.Strategy) (netip.Prefix, bool) {
	var best netip.Prefix
	for p := range x.FreeBlocks() {
		better := !best.IsValid() ||
			s == index.BestFit && p.Bits() > best.Bits() ||
			s == index.LeastUtilized && p.Bits() < best.Bits()
		if p.Bits() <= length && better {
			best = p
		}
	}
	found := netip.PrefixFrom(best.Addr(), length)
	return found, found.IsValid()
}

// Histogram counts the free blocks of each length.
func (x *Index) Histogram() (h index.Histogram) {
	for p := range x.FreeBlocks() {
		h[p.Bits()]++
	}
	return h
}

// Largest is the length of the largest free block.
func (x *Index) Largest() (length int, ok bool) {
	for length, count := range x.Histogram() {
		if count > 0 {
			return length, true
		}
	}
	return 0, false
}

// Available is the number of free addresses.
func (x *Index) Available() *big.Int {
	sum := new(big.Int)
	for p := range x.FreeBlocks() {
		sum.Add(sum, cidr.Size(p))
	}
	return sum
}

// Blocks is the number of prefixes held.
func (x *Index) Blocks() int { return len(x.held) }

// Overlapping counts the held blocks that p overlaps.
func (x *Index) Overlapping(p netip.Prefix) int {
	count := 0
	for _, held := range x.held {
		if x.window.Overlaps(p) && held.Overlaps(p) {
			count++
		}
	}
	return count
}

// Held yields every held prefix in address order.
func (x *Index) Held() iter.Seq[netip.Prefix] { return slices.Values(x.held) }

func (x *Index) taken() []netip.Prefix { return slices.Concat(x.held, x.excluded) }
