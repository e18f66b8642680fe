package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// mostExcluded is how many excludedCIDRs a pool may have.
const mostExcluded = 256

// Check finds what contradicts itself in a plan, as far as that shows without a server: names,
// duplicates, overlaps, and claims for what their pool does not give.
func (p *Plan) Check() []Problem {
	found := &problems{}
	p.names(found)
	p.overlappingPools(found)
	for _, pool := range p.Pools {
		pool.check(found)
	}
	p.overlappingClaims(found)
	p.outside(found)
	return found.sorted()
}

// names finds names that no object may have, and those that two have.
func (p *Plan) names(found *problems) {
	pools, claims := map[string]int{}, map[string]int{}
	for _, pool := range p.Pools {
		checkName(pool.Line, kindPool, pool.Name, pool.Name, pools, found)
	}
	for _, claim := range p.Claims {
		checkName(claim.Line, kindClaim, claim.Name, claim.name(), claims, found)
	}
}

func checkName(line int, kind, name, key string, seen map[string]int, found *problems) {
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		found.add(line, "%q is no name of a %s: write lower case letters, digits, - and . alone, such as web-1", name, kind)
	}
	if first, ok := seen[key]; ok {
		found.add(line, "the %s %s is on line %d already: leave one of them out, or give it another name", kind, key, first)
		return
	}
	seen[key] = line
}

// placed is a block of a line, for finding overlaps.
type placed struct {
	block netip.Prefix
	line  int
	name  string
	// space tells blocks apart that may overlap.
	space string
}

// overlaps calls each with every block that overlaps one before it in the same space. It sorts the
// blocks: of two that overlap, one contains the other.
func overlaps(blocks []placed, each func(inner, outer placed)) {
	slices.SortStableFunc(blocks, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.space, b.space), a.block.Addr().Compare(b.block.Addr()), cmp.Compare(a.block.Bits(), b.block.Bits()))
	})
	var around []placed
	for _, b := range blocks {
		for len(around) > 0 && (around[len(around)-1].space != b.space || !contains(around[len(around)-1].block, b.block)) {
			around = around[:len(around)-1]
		}
		if len(around) > 0 {
			each(b, around[len(around)-1])
		}
		around = append(around, b)
	}
}

func (p *Plan) overlappingPools(found *problems) {
	var blocks []placed
	domains := map[int]string{}
	for _, pool := range p.Pools {
		if block, err := ParseBlock(string(pool.Spec.CIDR)); err == nil {
			blocks = append(blocks, placed{block: block, line: pool.Line, name: pool.Name})
			domains[pool.Line] = pool.Spec.AddressDomain
		}
	}
	overlaps(blocks, func(inner, outer placed) {
		if domain := domains[inner.line]; domain != "" && domain == domains[outer.line] {
			return
		}
		found.add(inner.line, "pool %s (%s) overlaps pool %s (%s) of line %d: write %s as a claim in pool %s, or put both pools in one addressDomain",
			inner.name, inner.block, outer.name, outer.block, outer.line, inner.block, outer.name)
	})
}

func (p *Plan) overlappingClaims(found *problems) {
	var blocks []placed
	for _, claim := range p.Claims {
		if block, err := ParseBlock(claim.Spec.Address); err == nil {
			blocks = append(blocks, placed{block: block, line: claim.Line, name: claim.name(), space: sourceOf(claim.Spec)})
		}
	}
	overlaps(blocks, func(inner, outer placed) {
		found.add(inner.line, "claim %s (%s) overlaps claim %s (%s) of line %d: two claims never have the same address; leave one of them out",
			inner.name, inner.block, outer.name, outer.block, outer.line)
	})
}

// sourceOf is where a claim gets its block from, as a text. Claims of different sources may have
// blocks of different spaces.
func sourceOf(spec ipamv1alpha1.IPClaimSpec) string {
	switch ref := spec.PoolRef; {
	case ref == nil:
		return "class " + spec.ClassName
	case ref.ProjectRef == nil:
		return "pool " + ref.Name
	default:
		return "pool " + ref.Name + " in " + ref.ProjectRef.Name
	}
}

// check finds what a pool says that its own CIDR contradicts.
func (p Pool) check(found *problems) {
	block, err := ParseBlock(string(p.Spec.CIDR))
	if err != nil {
		return
	}
	if n := len(p.Spec.ExcludedCIDRs); n > mostExcluded {
		found.add(p.Line, "pool %s excludes %d blocks, and a pool may exclude %d: write larger blocks, or claims", p.Name, n, mostExcluded)
	}
	for _, cidr := range p.Spec.ExcludedCIDRs {
		line := cmp.Or(p.excludedBy[cidr], p.Line)
		excluded, err := ParseBlock(string(cidr))
		if err != nil {
			found.add(line, "pool %s: spec.excludedCIDRs: %v", p.Name, err)
			continue
		}
		if !contains(block, excluded) {
			found.add(line, "pool %s (%s) excludes %s, which is not inside it: leave it out, or write the part inside", p.Name, block, excluded)
		}
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
		block, err := ParseBlock(claim.Spec.Address)
		if !ok || err != nil {
			continue
		}
		whole, _ := ParseBlock(string(pool.Spec.CIDR))
		if _, ok := kept[pool.Name]; !ok {
			kept[pool.Name] = space.KeptBack(whole, pool.Spec)
		}
		claim.inside(pool, whole, block, kept[pool.Name], found)
	}
}

func (c Claim) inside(pool Pool, whole, block netip.Prefix, kept []netip.Prefix, found *problems) {
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
