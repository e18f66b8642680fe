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
	// Class is the one with the poolPer by which the pool is made.
	Class *ipamv1alpha1.IPClass
	// Derived says which pool it is: class, workspace and scope.
	Derived ledger.Derived
	// Space is the address space of the pool above that the pool is carved in; nil: the pool above itself.
	Space *Space
	// Length is that of the pool.
	Length int
	// Exact is the CIDR that the pool must have, for a ScopeRange that asks for one; the zero Prefix if it may have
	// any.
	Exact netip.Prefix
	// Strategy places the pool inside the one above.
	Strategy ipamv1alpha1.Strategy
	// Excluded returns the prefixes that the pool reserves, once its CIDR is known.
	Excluded func(cidr netip.Prefix) []netip.Prefix
	// Name is that of the IPPool.
	Name string
	// InPlatform says that the IPPool is in the platform's workspace, and not in that of the claim.
	InPlatform bool
	// Limit is the number of addresses that a workspace may have in such pools; nil for none. Of a pool that all
	// workspaces share there is none.
	Limit *big.Int
}

// Space says which address space of a pool has the block of a claim, or the pool that is made for it.
type Space struct {
	Workspace ledger.ClusterName // empty: all workspaces share it, as they share the pool that is carved in it
	Scope     ledger.Scope
}

// space returns the address space that a class has for the claim's scope, of a workspace; nil if each pool has just
// one.
func (q Query) space(class *ipamv1alpha1.IPClass, of ledger.ClusterName) *Space {
	if len(class.Spec.UniqueWithin) == 0 {
		return nil
	}
	return &Space{Workspace: of, Scope: LedgerScope(q.Claim.Spec.Scope.Only(class.Spec.UniqueWithin))}
}

// In returns the ID of the address space of a pool; that of the pool if s is nil.
func (s *Space) In(of ledger.PoolID) ledger.PoolID {
	if s == nil {
		return of
	}
	return ledger.AddressSpaceID(of, s.Workspace, s.Scope)
}

// Begins returns what begins the address space of a pool with its first block; nil if s is nil.
func (s *Space) Begins(of ledger.PoolID) *ledger.Derived {
	if s == nil {
		return nil
	}
	return &ledger.Derived{Of: of, Workspace: s.Workspace, Scope: s.Scope}
}

// levels returns the pools that the claim needs, from the one below the authored pools on: of a range that of its class
// is the last, of a block that of the class above.
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

// ask gives the last level the length, or CIDR, that a claim for a range asks for. Those above then have the CIDRs that
// it lies in.
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

// tenant says whose the claim is.
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

// LedgerScope returns the ledger's word for the API's.
func LedgerScope(scope ipamv1alpha1.Scope) ledger.Scope {
	converted := make(ledger.Scope, len(scope))
	for role, ref := range scope {
		converted[role] = ledger.ScopeRef(ref)
	}
	return converted
}

// APIScope returns the API's word for the ledger's; nil for an empty scope.
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

// derivedName returns the name of the IPPool of a derived pool, for people: class, the last word of the workspace's
// path if each has its own, the objects by their sorted roles, and the begin of the digest, which alone tells pools
// apart.
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

// nameable returns a letter as it may be in a name.
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
