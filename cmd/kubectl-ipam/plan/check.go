package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// Check finds what contradicts itself in a plan, as far as that shows without a server: names,
// duplicates, overlaps, and claims for what their pool does not give.
func (p *Plan) Check() []Problem {
	found := &problems{}
	repeats := map[int]bool{}
	p.overlappingPools(repeats, found)
	nested := p.overlappingClaims(repeats, found)
	p.names(repeats, found)
	p.outside(found)
	p.homeless(nested, found)
	return found.sorted()
}

// names finds names that no object may have, and those that two have. A line that repeats the block
// of another one has its problem.
func (p *Plan) names(repeats map[int]bool, found *problems) {
	pools, claims := map[string]int{}, map[string]int{}
	check := func(line int, kind, name, key string, seen map[string]int) {
		for _, wrong := range validation.IsDNS1123Subdomain(name) {
			found.add(line, "%s is no name of a %s: %s", quoted(name), kind, wrong)
		}
		first, ok := seen[key]
		if !ok {
			seen[key] = line
			return
		}
		if !repeats[line] {
			found.add(line, "the %s %s is on line %d already: leave one of them out, or give it another name", kind, key, first)
		}
	}
	for _, pool := range p.Pools {
		check(pool.Line, kindPool, pool.Name, pool.Name, pools)
	}
	for _, claim := range p.Claims {
		check(claim.Line, kindClaim, claim.Name, claim.name(), claims)
	}
}

// sourceOf is where a claim gets its block from, as a text that is empty if it does not say. Claims of different sources may have
// blocks of different spaces.
func sourceOf(spec ipamv1alpha1.IPClaimSpec) string {
	switch ref := spec.PoolRef; {
	case ref == nil && spec.ClassName == "":
		return ""
	case ref == nil:
		if len(spec.Scope) == 0 {
			return "class " + spec.ClassName
		}
		return "class " + spec.ClassName + " for " + field.Field{Value: field.Scope(&spec.Scope)}.Cell()
	case ref.ProjectRef == nil:
		return "pool " + ref.Name
	default:
		return "pool " + ref.Name + " in " + ref.ProjectRef.Name
	}
}

// outside finds claims for blocks that their pool of the plan does not give.
func (p *Plan) outside(found *problems) {
	pools := p.index()
	kept := map[string][]netip.Prefix{}
	for _, claim := range p.Claims {
		ref := claim.Spec.PoolRef
		if ref == nil || ref.ProjectRef != nil {
			continue
		}
		pool, ok := pools.find(ref.Name, netip.Prefix{})
		if !ok {
			continue
		}
		if _, ok := kept[pool.Name]; !ok {
			kept[pool.Name] = space.KeptBack(pool.block, pool.Spec)
		}
		claim.inside(pool, kept[pool.Name], found)
	}
}

// homeless finds claims that do not say where they get their block from, and are in no pool of the
// plan. nested are lines with another problem, which ends this one.
func (p *Plan) homeless(nested map[int]bool, found *problems) {
	for _, claim := range p.Claims {
		if sourceOf(claim.Spec) == "" && claim.Spec.PoolSelector == nil && !nested[claim.Line] && !p.incomplete {
			found.add(claim.Line, "%s is in no pool of this plan: give the claim a pool or a class, or add a row for the pool", claim.Spec.Address)
		}
	}
}

func (c Claim) inside(pool Pool, kept []netip.Prefix, found *problems) {
	whole, block := pool.block, c.block
	if !contains(whole, block) {
		found.add(c.Line, "claim %s: %s is not inside pool %s (%s): name another pool, or correct the block", c.name(), block, pool.Name, whole)
		return
	}
	if reserved, ok := space.FirstOverlap(kept, block); ok {
		found.add(c.Line, "claim %s: pool %s never gives %s, as it keeps %s back: take that out of the pool's reservations, exclusions or gateway, or leave the claim out", c.name(), pool.Name, block, reserved)
	}
	bounds := pool.Spec.Allocation
	if least, most := bounds.MinPrefixLength, cmp.Or(bounds.MaxPrefixLength, 128); int32(block.Bits()) < least || int32(block.Bits()) > most {
		found.add(c.Line, "claim %s: pool %s gives /%d to /%d, not %s: correct its min-length or max-length", c.name(), pool.Name, max(least, int32(whole.Bits())), most, block)
	}
}

// placed is a block of a line, for finding overlaps.
type placed struct {
	block netip.Prefix
	line  int
	name  string
	// space tells blocks apart that may overlap. Blocks of one domain may as well.
	space, domain string
}

// mayOverlap reports whether two blocks are of one address domain.
func (p placed) mayOverlap(other placed) bool { return p.domain != "" && p.domain == other.domain }

// nest is a block and those that it contains, in the order of their addresses, a larger one first, though none of them may overlap.
type nest struct {
	outer  placed
	inside []placed
}

// overlaps finds the blocks of a space that repeat one of an earlier line, which it adds to again, and the outermost blocks
// that contain others.
func (p *problems) overlaps(kind string, blocks []placed, again map[int]bool) []nest {
	slices.SortStableFunc(blocks, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.space, b.space), a.block.Addr().Compare(b.block.Addr()), cmp.Compare(a.block.Bits(), b.block.Bits()), cmp.Compare(a.line, b.line))
	})
	var found []nest
	var last placed
	for i, b := range blocks {
		if i > 0 && last.space == b.space && last.block == b.block && !last.mayOverlap(b) {
			again[b.line] = true
			p.add(b.line, "%s %s repeats %s of line %d: a workspace has each address once; import each VRF into a workspace of its own, or leave one of the lines out",
				kind, b.name, b.block, last.line)
			continue
		}
		last = b
		if n := len(found) - 1; n >= 0 && found[n].outer.space == b.space && contains(found[n].outer.block, b.block) {
			if !found[n].outer.mayOverlap(b) {
				found[n].inside = append(found[n].inside, b)
			}
			continue
		}
		found = append(found, nest{outer: b})
	}
	return slices.DeleteFunc(found, func(n nest) bool { return len(n.inside) == 0 })
}

// leave says which of the blocks inside contain others, and are to be left out; empty if there are none of these.
func (n *nest) leave() string {
	var between []placed
	for i, b := range n.inside[1:] {
		if contains(n.inside[i].block, b.block) {
			between = append(between, n.inside[i])
		}
	}
	if len(between) == 0 {
		return ""
	}
	return fmt.Sprintf(", and leave out %s, between the outermost and the innermost", linesOf(between))
}

// String names a block with its line.
func (p placed) String() string { return fmt.Sprintf("%s (%s, line %d)", p.name, p.block, p.line) }

// linesOf names some lines.
func linesOf(blocks []placed) string {
	const most = 8
	return few(slices.SortedFunc(slices.Values(blocks), func(a, b placed) int { return cmp.Compare(a.line, b.line) }), most)
}

// overlappingPools adds the lines that repeat the block of another one to again.
func (p *Plan) overlappingPools(again map[int]bool, found *problems) {
	blocks := make([]placed, 0, len(p.Pools))
	for _, pool := range p.Pools {
		blocks = append(blocks, placed{block: pool.block, line: pool.Line, name: pool.Name, domain: pool.Spec.AddressDomain})
	}
	for _, n := range found.overlaps(kindPool, blocks, again) {
		found.add(n.outer.line, "pool %s (%s) contains pool %s: write the innermost as claims in pool %s%s; or put the pools in one addressDomain",
			n.outer.name, n.outer.block, linesOf(n.inside), n.outer.name, n.leave())
	}
}

// overlappingClaims adds the lines that repeat the block of another one to again, and returns those that are in a
// claim that may become a pool.
func (p *Plan) overlappingClaims(again map[int]bool, found *problems) (nested map[int]bool) {
	nested = map[int]bool{}
	blocks := make([]placed, 0, len(p.Claims))
	for _, claim := range p.Claims {
		blocks = append(blocks, placed{block: claim.block, line: claim.Line, name: claim.name(), space: sourceOf(claim.Spec)})
	}
	for _, n := range found.overlaps(kindClaim, blocks, again) {
		what := "leave it out, as the " + n.outer.space + " has the addresses of all"
		if n.outer.space == "" {
			what = "make it a pool"
			for _, b := range append(n.inside, n.outer) {
				nested[b.line] = true
			}
		}
		found.add(n.outer.line, "claim %s (%s) contains claim %s, and two claims never have the same address: %s%s",
			n.outer.name, n.outer.block, linesOf(n.inside), what, n.leave())
	}
	return nested
}
