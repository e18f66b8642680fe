package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// Check finds the contradictions in a plan that show without a server: in names, by duplicates and overlaps, and by
// claims for blocks that their pool does not give.
func (p *Plan) Check() []Problem {
	found := &problems{}
	repeats := p.overlappingPools(found)
	again, nested := p.overlappingClaims(found)
	maps.Copy(repeats, again)
	p.names(repeats, found)
	p.outside(found)
	p.homeless(nested, found)
	return found.sorted()
}

// names finds invalid names, and names that two objects have. A line that repeats the block of an earlier line is left
// out, because it has a problem already.
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

// sourceOf names the pool or class from which a claim gets its block; empty if the claim names none. The blocks of
// claims with different sources may be in different spaces.
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

// spaceOf names the space that has the block of a claim. If the pool of the claim is in an address domain, that is the
// domain: its pools share their addresses. Otherwise it is the source of the claim.
func (x index) spaceOf(spec ipamv1alpha1.IPClaimSpec) string {
	if ref := spec.PoolRef; ref != nil && ref.ProjectRef == nil {
		if pool, ok := x.byName[ref.Name]; ok && pool.Spec.AddressDomain != "" {
			return "domain " + pool.Spec.AddressDomain
		}
	}
	return sourceOf(spec)
}

// outside finds claims for blocks that their pool, which is in the plan, does not give.
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

// homeless finds claims that name no source, and that no pool of the plan contains. It skips the lines in nested: their
// own problem explains this one.
func (p *Plan) homeless(nested map[int]bool, found *problems) {
	for _, claim := range p.Claims {
		if sourceOf(claim.Spec) == "" && claim.Spec.PoolSelector == nil && !nested[claim.Line] && !p.lacks(claim.block) {
			found.add(claim.Line, "%s is in no pool of this plan: give the claim a pool or a class, or add a row for the pool",
				claim.Spec.Address)
		}
	}
}

func (c Claim) inside(pool Pool, kept []netip.Prefix, found *problems) {
	whole, block := pool.block, c.block
	if !contains(whole, block) {
		found.add(c.Line, "claim %s: %s is not inside pool %s (%s): name another pool, or correct the block",
			c.name(), block, pool.Name, whole)
		return
	}
	if reserved, ok := space.FirstOverlap(kept, block); ok {
		found.add(c.Line, "claim %s: pool %s never gives %s, as it keeps %s back: "+
			"take that out of the pool's reservations, exclusions or gateway, or leave the claim out",
			c.name(), pool.Name, block, reserved)
	}
	for role, ref := range pool.Spec.Scope {
		if c.Spec.Scope[role] != ref {
			found.add(c.Line, "claim %s: pool %s serves no other scope than %s: give the claim that scope, or name another pool",
				c.name(), pool.Name, ipamv1alpha1.ScopeColumn(pool.Spec.Scope))
			break
		}
	}
	bounds := pool.Spec.Allocation
	least, most := bounds.MinPrefixLength, cmp.Or(bounds.MaxPrefixLength, 128)
	if bits := int32(block.Bits()); bits < least || bits > most {
		found.add(c.Line, "claim %s: pool %s gives /%d to /%d, not %s: correct its min-length or max-length",
			c.name(), pool.Name, max(least, int32(whole.Bits())), most, block)
	}
}

// placed is the block of a line, with the facts that are needed to find overlaps.
type placed struct {
	block netip.Prefix
	line  int
	name  string
	// space names the space of the block. Only blocks of one space can overlap, and those of one domain may.
	space, domain string
}

func (p placed) shares(other placed) bool { return p.domain != "" && p.domain == other.domain }

// nest is a block with the blocks inside it, although they must not overlap.
type nest struct {
	outer placed
	// between are the blocks inside that contain others.
	inside, between []placed
}

// overlaps finds overlaps within each space. again has the lines whose block is that of an earlier line, and nests has
// the outermost blocks that contain others.
func overlaps(kind string, blocks []placed, found *problems) (nests []nest, again map[int]bool) {
	slices.SortStableFunc(blocks, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.space, b.space), a.block.Addr().Compare(b.block.Addr()),
			cmp.Compare(a.block.Bits(), b.block.Bits()), cmp.Compare(a.line, b.line))
	})
	again = map[int]bool{}
	var last placed
	for i, b := range blocks {
		if i > 0 && last.space == b.space && last.block == b.block && !last.shares(b) {
			again[b.line] = true
			found.add(b.line, "%s %s repeats %s of line %d: %s", kind, b.name, b.block, last.line, repeated)
			continue
		}
		last = b
		if n := len(nests) - 1; n >= 0 && nests[n].outer.space == b.space && contains(nests[n].outer.block, b.block) {
			if !nests[n].outer.shares(b) {
				nests[n].add(b)
			}
			continue
		}
		nests = append(nests, nest{outer: b})
	}
	return slices.DeleteFunc(nests, func(n nest) bool { return len(n.inside) == 0 }), again
}

// add adds a block to those inside. Blocks must come by address, and larger ones first.
func (n *nest) add(b placed) {
	if i := len(n.inside) - 1; i >= 0 && contains(n.inside[i].block, b.block) {
		n.between = append(n.between, n.inside[i])
	}
	n.inside = append(n.inside, b)
}

// leave advises to leave out the blocks between the outermost and the innermost; empty if there are none.
func (n *nest) leave() string {
	if len(n.between) == 0 {
		return ""
	}
	return fmt.Sprintf(", and leave out %s, between the outermost and the innermost", linesOf(n.between))
}

// String names a block with its line.
func (p placed) String() string { return fmt.Sprintf("%s (%s, line %d)", p.name, p.block, p.line) }

// linesOf names blocks with their lines, in the order of the lines.
func linesOf(blocks []placed) string {
	const most = 8
	byLine := func(a, b placed) int { return cmp.Compare(a.line, b.line) }
	return few(slices.SortedFunc(slices.Values(blocks), byLine), most)
}

// repeated is the advice for a block that two lines have.
const repeated = "a pool has each address once: " +
	"leave one of the lines out, and name a VRF in the column scope of its claims if the class has uniqueWithin; " +
	"or import each VRF into a workspace of its own"

// overlappingPools finds pools that overlap, and returns the lines that repeat the block of another line.
func (p *Plan) overlappingPools(found *problems) map[int]bool {
	blocks := make([]placed, 0, len(p.Pools))
	for _, pool := range p.Pools {
		blocks = append(blocks, placed{
			block: pool.block, line: pool.Line, name: pool.Name, space: parentOf(pool.Spec), domain: pool.Spec.AddressDomain,
		})
	}
	nests, again := overlaps(kindPool, blocks, found)
	for _, n := range nests {
		found.add(n.outer.line, "pool %s (%s) contains pool %s: write the innermost as claims in pool %s%s; "+
			"or give each pool inside its parent, in the column pool or as spec.parentPoolRef; "+
			"or put the pools in one addressDomain",
			n.outer.name, n.outer.block, linesOf(n.inside), n.outer.name, n.leave())
	}
	return again
}

// parentOf names the pool or class from which a pool is carved; empty for a root pool.
func parentOf(spec ipamv1alpha1.IPPoolSpec) string {
	return sourceOf(ipamv1alpha1.IPClaimSpec{PoolRef: spec.ParentPoolRef, ClassName: spec.ParentClassName})
}

// overlappingClaims finds claims that overlap. again has the lines that repeat the block of another line. nested has
// the lines of claims that name no source and overlap: the outermost may have to become a pool.
func (p *Plan) overlappingClaims(found *problems) (again, nested map[int]bool) {
	blocks, pools := make([]placed, 0, len(p.Claims)), p.index()
	for _, claim := range p.Claims {
		blocks = append(blocks, placed{
			block: claim.block, line: claim.Line, name: claim.name(), space: pools.spaceOf(claim.Spec),
		})
	}
	nests, again := overlaps(kindClaim, blocks, found)
	nested = map[int]bool{}
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
