package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// placed is a block of a line, for finding overlaps.
type placed struct {
	block netip.Prefix
	line  int
	name  string
	// space tells blocks apart that may overlap.
	space string
}

// nest is a block and those that it contains, by line, though none of them may overlap.
type nest struct {
	outer placed
	// between are those inside that contain others inside.
	inside, between []placed
}

// overlaps finds the blocks of a space that repeat one of an earlier line, and the outermost blocks
// that contain others. free says which two may overlap.
func overlaps(blocks []placed, free func(outer, inner placed) bool, repeats func(first, again placed)) []nest {
	slices.SortStableFunc(blocks, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.space, b.space), a.block.Addr().Compare(b.block.Addr()), cmp.Compare(a.block.Bits(), b.block.Bits()), cmp.Compare(a.line, b.line))
	})
	var found []nest
	var last placed
	for i, b := range blocks {
		if i > 0 && last.space == b.space && last.block == b.block && !free(last, b) {
			repeats(last, b)
			continue
		}
		last = b
		if n := len(found) - 1; n >= 0 && found[n].outer.space == b.space && contains(found[n].outer.block, b.block) {
			if !free(found[n].outer, b) {
				found[n].add(b)
			}
			continue
		}
		found = append(found, nest{outer: b})
	}
	return slices.DeleteFunc(found, func(n nest) bool { return len(n.inside) == 0 })
}

// add adds a block. They come in the order of their addresses, a larger one first.
func (n *nest) add(b placed) {
	if i := len(n.inside) - 1; i >= 0 && contains(n.inside[i].block, b.block) {
		n.between = append(n.between, n.inside[i])
	}
	n.inside = append(n.inside, b)
}

// leave says which of the blocks inside to leave out; empty if there are none of these.
func (n *nest) leave() string {
	if len(n.between) == 0 {
		return ""
	}
	return fmt.Sprintf(", and leave out %s, between the outermost and the innermost", linesOf(n.between))
}

// linesOf names some lines.
func linesOf(blocks []placed) string {
	const most = 8
	blocks = slices.SortedFunc(slices.Values(blocks), func(a, b placed) int { return cmp.Compare(a.line, b.line) })
	words := make([]string, 0, most)
	for _, b := range blocks[:min(len(blocks), most)] {
		words = append(words, fmt.Sprintf("%s (%s, line %d)", b.name, b.block, b.line))
	}
	if more := len(blocks) - most; more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	return strings.Join(words, ", ")
}

// repeated is what to do about address space that is there twice.
const repeated = "a workspace has each address once; import each VRF into a workspace of its own, or leave one of the lines out"

// overlappingPools returns the lines that repeat the block of another one.
func (p *Plan) overlappingPools(found *problems) map[int]bool {
	blocks := make([]placed, 0, len(p.Pools))
	domains, again := map[int]string{}, map[int]bool{}
	for _, pool := range p.Pools {
		if block, err := ParseBlock(string(pool.Spec.CIDR)); err == nil {
			blocks = append(blocks, placed{block: block, line: pool.Line, name: pool.Name})
			domains[pool.Line] = pool.Spec.AddressDomain
		}
	}
	shared := func(outer, inner placed) bool {
		domain := domains[inner.line]
		return domain != "" && domain == domains[outer.line]
	}
	nests := overlaps(blocks, shared, func(first, b placed) {
		again[b.line] = true
		found.add(b.line, "pool %s repeats %s of line %d: %s", b.name, b.block, first.line, repeated)
	})
	for _, n := range nests {
		found.add(n.outer.line, "pool %s (%s) contains pool %s: write the innermost as claims in pool %s%s; or put the pools in one addressDomain",
			n.outer.name, n.outer.block, linesOf(n.inside), n.outer.name, n.leave())
	}
	return again
}

// overlappingClaims returns the lines that repeat the block of another one, and those that are in a
// claim that may become a pool.
func (p *Plan) overlappingClaims(found *problems) (again, nested map[int]bool) {
	again, nested = map[int]bool{}, map[int]bool{}
	blocks := make([]placed, 0, len(p.Claims))
	for _, claim := range p.Claims {
		if block, err := ParseBlock(claim.Spec.Address); err == nil {
			blocks = append(blocks, placed{block: block, line: claim.Line, name: claim.name(), space: sourceOf(claim.Spec)})
		}
	}
	nests := overlaps(blocks, func(_, _ placed) bool { return false }, func(first, b placed) {
		again[b.line] = true
		found.add(b.line, "claim %s repeats %s of line %d: %s", b.name, b.block, first.line, repeated)
	})
	for _, n := range nests {
		what := "leave it out, as the " + n.outer.space + " has the addresses of all"
		if n.outer.space == "" {
			what = "make it a pool"
			nested[n.outer.line] = true
			for _, b := range n.inside {
				nested[b.line] = true
			}
		}
		found.add(n.outer.line, "claim %s (%s) contains claim %s, and two claims never have the same address: %s%s",
			n.outer.name, n.outer.block, linesOf(n.inside), what, n.leave())
	}
	return again, nested
}
