package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// mostExcluded is how many excludedCIDRs a pool may have.
const mostExcluded = 256

// Check finds what contradicts itself in a plan, as far as that shows without a server: names,
// duplicates, overlaps, and claims for what their pool does not give.
func (p *Plan) Check() []Problem {
	found := &problems{}
	repeats := p.overlappingPools(found)
	again, nested := p.overlappingClaims(found)
	maps.Copy(repeats, again)
	p.names(repeats, found)
	for _, pool := range p.Pools {
		pool.check(found)
	}
	p.outside(found)
	p.homeless(nested, found)
	return found.sorted()
}

// names finds names that no object may have, and those that two have. A line that repeats the block
// of another one has its problem.
func (p *Plan) names(repeats map[int]bool, found *problems) {
	pools, claims := map[string]int{}, map[string]int{}
	check := func(line int, kind, name, key string, seen map[string]int) {
		if wrong := misnamed(name); wrong != "" {
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

// misnamed says what to write instead of a name that no object may have; empty for one that an
// object may have.
func misnamed(name string) string {
	strange := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' }
	switch {
	case len(validation.IsDNS1123Subdomain(name)) == 0:
		return ""
	case strings.ContainsFunc(name, strange):
		return "write lower case letters a to z, digits, - and . alone, such as web-1"
	case len(name) > validation.DNS1123SubdomainMaxLength:
		return fmt.Sprintf("it has %d characters; write %d at most", len(name), validation.DNS1123SubdomainMaxLength)
	default:
		return "begin and end it, and each part between dots, with a letter or a digit, such as web-1"
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

// check finds what a pool says that its own CIDR contradicts.
func (p Pool) check(found *problems) {
	block, err := ParseBlock(string(p.Spec.CIDR))
	if err != nil {
		return
	}
	if n := len(p.Spec.ExcludedCIDRs); n > mostExcluded {
		found.add(p.Line, "pool %s excludes %d blocks, and a pool may exclude %d: write larger blocks, or claims", p.Name, n, mostExcluded)
	}
	var told exclusion // a range has several blocks
	for _, cidr := range p.Spec.ExcludedCIDRs {
		by, ok := p.excludedBy[cidr]
		if !ok {
			by = exclusion{line: p.Line, text: string(cidr)}
		}
		excluded, err := ParseBlock(string(cidr))
		if err != nil {
			found.add(by.line, "pool %s: spec.excludedCIDRs: %v", p.Name, err)
			continue
		}
		if !contains(block, excluded) && by.text != told.text {
			told = by
			found.add(by.line, "pool %s (%s) excludes %s, which is not inside it: leave it out, or write the part inside", p.Name, block, by.text)
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

// homeless finds claims that do not say where they get their block from, and are in no pool of the
// plan. nested are lines with another problem, which ends this one.
func (p *Plan) homeless(nested map[int]bool, found *problems) {
	for _, claim := range p.Claims {
		if sourceOf(claim.Spec) == "" && claim.Spec.PoolSelector == nil && !nested[claim.Line] && !p.incomplete {
			found.add(claim.Line, "%s is in no pool of this plan: give the claim a pool or a class, or add a row for the pool", claim.Spec.Address)
		}
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
