package resolve

import (
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Level is a pool that the system makes for the scope of a claim.
type Level struct {
	// Class is the class by whose poolPer the pool is made.
	Class *ipamv1alpha1.IPClass
	// Derived identifies the pool by class, workspace and scope.
	Derived ledger.Derived
	// Space is the address space in which the pool is carved, and which belongs to the pool above; nil: it is carved in
	// the pool above itself.
	Space *Space
	// Length is the prefix length of the pool.
	Length int
	// Exact is the CIDR that the pool must have, for a ScopeRange that asks for one; the zero Prefix if it may have
	// any.
	Exact netip.Prefix
	// Strategy places the pool inside the one above.
	Strategy ipamv1alpha1.Strategy
	// Excluded returns the prefixes that the pool reserves, once its CIDR is known.
	Excluded func(cidr netip.Prefix) []netip.Prefix
	// Name is the name of the IPPool.
	Name string
	// InPlatform says that the IPPool is in the platform's workspace, and not in that of the claim.
	InPlatform bool
	// Limit is the number of addresses that a workspace may have in such pools; nil: no limit. A pool that all workspaces
	// share has no limit.
	Limit *big.Int
}

// Space identifies an address space of a pool. The block of a claim is bound in it, or the block of a pool that is
// carved for a claim.
type Space struct {
	Workspace ledger.ClusterName // empty: all workspaces share the address space, and the pool that is carved in it
	Scope     ledger.Scope
}

// space returns the address space that a class has for the claim's scope and for a workspace; nil if the class has no
// uniqueWithin.
func (q Query) space(class *ipamv1alpha1.IPClass, of ledger.ClusterName) *Space {
	if len(class.Spec.UniqueWithin) == 0 {
		return nil
	}
	return &Space{Workspace: of, Scope: LedgerScope(q.Claim.Spec.Scope.Only(class.Spec.UniqueWithin))}
}

// In returns the ID of the address space of a pool; the ID of the pool itself if s is nil.
func (s *Space) In(of ledger.PoolID) ledger.PoolID {
	if s == nil {
		return of
	}
	return ledger.AddressSpaceID(of, s.Workspace, s.Scope)
}

// Begins describes the address space of a pool, for a request whose block may be the first one in it; nil if s is nil.
func (s *Space) Begins(of ledger.PoolID) *ledger.Derived {
	if s == nil {
		return nil
	}
	return &ledger.Derived{Of: of, Workspace: s.Workspace, Scope: s.Scope}
}

// levels returns the pools that the claim needs, beginning with the pool right below the authored pools. For a range,
// the last one is the pool of the claim's class. For a block, the last one is the pool of the class above.
func (q Query) levels(classes chain) []Level {
	if !IsRange(q.Claim) {
		classes = classes[1:]
	}
	var levels []Level
	for _, class := range slices.Backward(classes) {
		level := q.level(class)
		level.Strategy = class.Spec.Strategy
		if len(levels) > 0 {
			level.Strategy = levels[len(levels)-1].Class.Spec.Strategy
		}
		levels = append(levels, level)
	}
	if IsRange(q.Claim) {
		q.ask(levels)
	}
	return levels
}

// ask gives the last level the length, or the CIDR, that a claim for a range asks for. If the claim asks for a CIDR,
// each level above gets the CIDR that contains the one asked for.
func (q Query) ask(levels []Level) {
	last := &levels[len(levels)-1]
	if asked, err := askedLength(q.Claim); err == nil && asked != 0 {
		last.Length = asked
	}
	exact, _ := askedPrefix(q.Claim) // a wrong one is refused by rangeLength
	for i := range levels {
		if l := &levels[i]; exact.IsValid() && l.Length <= exact.Bits() {
			l.Exact = netip.PrefixFrom(exact.Addr(), l.Length).Masked()
		}
	}
}

// tenant returns the tenant to which the claim belongs.
func (q Query) tenant() ledger.ClusterName { return q.From.Cluster.Tenant(q.Claim.Namespace) }

// level returns the pool that a class has for the claim's scope.
func (q Query) level(class *ipamv1alpha1.IPClass) Level {
	scope := q.Claim.Spec.Scope.Only(class.Spec.PoolPer)
	level := Level{
		Class: class, Length: poolLength(class), InPlatform: shared(class), Limit: class.Spec.MaxPerConsumer.Int(),
		Derived: ledger.Derived{Class: class.Name, Workspace: q.tenant(), Scope: LedgerScope(scope)},
	}
	workspace := q.From.Path
	if namespace, ok := q.tenant().Namespace(); ok {
		workspace = namespace
	}
	if level.InPlatform {
		level.Derived.Workspace, level.Limit, workspace = "", nil, ""
	}
	level.Space = q.space(class, level.Derived.Workspace)
	level.Name = derivedName(class.Name, workspace, scope, ledger.Digest(level.Derived.ID()))
	if r := class.Spec.Reservations; r != nil {
		level.Excluded = func(cidr netip.Prefix) []netip.Prefix { return reserved(cidr, *r) }
	}
	return level
}

// LedgerScope converts a scope of the API into a scope of the ledger.
func LedgerScope(scope ipamv1alpha1.Scope) ledger.Scope {
	converted := make(ledger.Scope, len(scope))
	for role, ref := range scope {
		converted[role] = ledger.ScopeRef(ref)
	}
	return converted
}

// APIScope converts a scope of the ledger into a scope of the API; nil for an empty scope.
func APIScope(of ledger.Scope) ipamv1alpha1.Scope {
	if len(of) == 0 {
		return nil
	}
	converted := make(ipamv1alpha1.Scope, len(of))
	for role, ref := range of {
		converted[role] = ipamv1alpha1.ScopeRef(ref)
	}
	return converted
}

const (
	maxName      = 253
	digestInName = 8
)

// derivedName returns the name of a derived pool's IPPool, for people. It has the class, the last word of the
// workspace's path if each workspace has its own pool, the objects of the scope in the order of their roles, and the
// beginning of the digest. Only the digest is unique.
func derivedName(class, path string, scope ipamv1alpha1.Scope, digest string) string {
	parts := []string{class}
	if path != "" {
		parts = append(parts, path[strings.LastIndex(path, ":")+1:])
	}
	for _, role := range slices.Sorted(maps.Keys(scope)) {
		parts = append(parts, scope[role].Name)
	}
	for i, part := range parts {
		parts[i] = strings.Trim(strings.Map(nameable, part), "-")
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	name := strings.Join(parts, "-")
	if most := maxName - digestInName - 1; len(name) > most {
		name = strings.Trim(name[:most], "-")
	}
	return name + "-" + digest[:digestInName]
}

// nameable returns a character as it may be in a name.
func nameable(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
		return r
	case 'A' <= r && r <= 'Z':
		return r - 'A' + 'a'
	default:
		return '-'
	}
}
