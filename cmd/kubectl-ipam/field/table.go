package field

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

const scopeUsage = ", each role once: network=vpc-1,location=ams, or network=Network.networking.example.com/vpc-1; " +
	"without a kind, that is the role with a capital letter"

// Excluded is the name of the column for the blocks that a pool excludes.
const Excluded = "exclude"

// OfPool returns the fields of a pool that a flag and a column have in common.
func OfPool(pool *ipamv1alpha1.IPPool) []Field {
	spec := &pool.Spec
	edge := func(field func(*ipamv1alpha1.PoolReservations) pflag.Value) pflag.Value {
		return within(&spec.Reservations, field)
	}
	slice := func(field func(*ipamv1alpha1.PoolSlices) pflag.Value) pflag.Value { return within(&spec.Slices, field) }
	return []Field{
		{Name: "class", Usage: "Classes that the pool backs", Value: List(&spec.ClassNames)},
		ScopeOf(&spec.Scope, "Object whose claims the pool serves, and no others"),
		{Name: "domain", Usage: "Address domain: root pools of one domain may overlap, and never allocate an address twice",
			Value: Text(&spec.AddressDomain)},
		{Name: "visibility", Usage: "Which workspaces may use the pool: " +
			"consumer (this one), shared (those of --consumer) or platform (all, by a class)",
			Value: Word(&spec.Visibility, ipamv1alpha1.VisibilityConsumer, ipamv1alpha1.VisibilityShared,
				ipamv1alpha1.VisibilityPlatform)},
		{Name: "consumer", column: "consumers",
			Usage: "Workspaces that may use the pool, such as root:acme:web or 'root:acme:*'",
			Value: List(&spec.Consumers)},
		{Name: Excluded, Usage: "CIDRs inside the pool that are never allocated", Value: List(&spec.ExcludedCIDRs)},
		{Name: "gateway", Usage: "Address of the router, which is never allocated, such as 10.8.0.1",
			Value: Text(&spec.Gateway)},
		{Name: "network-length", Usage: "Prefix length of the network that the pool is part of; empty is that of the pool",
			Value: Length(&spec.NetworkPrefixLength)},
		{Name: "min-length", Usage: "Shortest prefix length that may be claimed: the largest block",
			Value: Length(&spec.Allocation.MinPrefixLength)},
		{Name: "max-length", Usage: "Longest prefix length that may be claimed: the smallest block",
			Value: Length(&spec.Allocation.MaxPrefixLength)},
		{Name: "strategy", Usage: "How a block is chosen: FirstFit, BestFit or LeastUtilized",
			Value: Strategy(&spec.Allocation.Strategy)},
		{Name: "leading", Usage: "Number of blocks that are reserved at the start",
			Value: edge(func(e *ipamv1alpha1.PoolReservations) pflag.Value { return Number(&e.Leading) })},
		{Name: "trailing", Usage: "Number of blocks that are reserved at the end",
			Value: edge(func(e *ipamv1alpha1.PoolReservations) pflag.Value { return Number(&e.Trailing) })},
		{Name: "unit-length", Usage: "Prefix length of each reserved block",
			Value: edge(func(e *ipamv1alpha1.PoolReservations) pflag.Value { return Length(&e.UnitPrefixLength) })},
		{Name: "slice-length", Usage: "Prefix length of the child pool that each workspace gets which binds the API",
			Value: slice(func(s *ipamv1alpha1.PoolSlices) pflag.Value { return Length(&s.PrefixLength) })},
		{Name: "max-slices", Usage: "How many workspaces get such a child pool; 0 is as many as fit",
			Value: slice(func(s *ipamv1alpha1.PoolSlices) pflag.Value { return Number(&s.MaxSlices) })},
		{Name: "max-per-consumer", Usage: "Addresses that one workspace may hold of the pool",
			Value: Text(&spec.MaxPerConsumer)},
		{Name: "release-cooldown",
			Usage: "How long a freed block is not allocated to another claim, such as 30s; at most 24h",
			Value: Text(&spec.ReleaseCooldown)},
		{Name: "max-retention-lease", Usage: "The longest time for which a retained block is kept, such as 720h",
			Value: Text(&spec.MaxRetentionLease)},
	}
}

// OfClaim returns the fields of a claim that a flag and a column have in common.
func OfClaim(claim *ipamv1alpha1.IPClaim) []Field {
	spec := &claim.Spec
	return []Field{
		{Name: "class", Usage: "Class to claim by", Value: Text(&spec.ClassName)},
		ScopeOf(&spec.Scope, "Object that the block is for"),
		{Name: "target", Usage: "Hold a block, or the whole range that the class has for this scope: block or range",
			Value: Target(&spec.Target)},
		{Name: "reclaim-policy",
			Usage: "What happens to the block when the claim is deleted: Delete frees it, Retain keeps it",
			Value: Word(&spec.ReclaimPolicy, ipamv1alpha1.ReclaimDelete, ipamv1alpha1.ReclaimRetain)},
		{Name: "retained-policy", Usage: "What happens if a block is retained from a deleted claim of the name: " +
			"Wait until it is released, or Reuse it",
			Value: Word(&spec.RetainedPolicy, ipamv1alpha1.RetainedWait, ipamv1alpha1.RetainedReuse)},
		{Name: "owner", Usage: "Object that uses the block, such as Service/default/web or Machine.example.com/default/m-1",
			Value: Owner(&spec.OwnerRef)},
		{Name: "owner-uid", Usage: "UID of that object, by which it is told from a later one of its name",
			Value: within(&spec.OwnerRef, func(ref *ipamv1alpha1.OwnerRef) pflag.Value { return Text(&ref.UID) })},
	}
}

// OfAll returns the fields that objects of every kind have.
func OfAll(meta *metav1.ObjectMeta) []Field {
	return []Field{
		{Name: "labels", Usage: "Labels of the object, such as site=fra", Value: Labels(&meta.Labels)},
		{Name: "description",
			Usage: "What people should know of the object: its annotation " + ipamv1alpha1.AnnotationDescription,
			Value: Annotation(meta, ipamv1alpha1.AnnotationDescription)},
	}
}

// Strategy returns a value that takes a strategy.
func Strategy(at *ipamv1alpha1.Strategy) pflag.Value {
	return Word(at, ipamv1alpha1.FirstFit, ipamv1alpha1.BestFit, ipamv1alpha1.LeastUtilized)
}

// Columns returns the columns of all fields, each once.
func Columns() []string {
	var columns []string
	all := slices.Concat(OfPool(&ipamv1alpha1.IPPool{}), OfClaim(&ipamv1alpha1.IPClaim{}), OfAll(&metav1.ObjectMeta{}))
	for _, f := range all {
		if !slices.Contains(columns, f.Column()) {
			columns = append(columns, f.Column())
		}
	}
	return columns
}

// ScopeOf makes the field for a scope.
func ScopeOf(at *ipamv1alpha1.Scope, usage string) Field {
	return Field{Name: "scope", Usage: usage + scopeUsage, Value: Scope(at)}
}

// Scope returns a value that takes the objects of a scope, separated by commas. Each role may occur once.
func Scope(at *ipamv1alpha1.Scope) pflag.Value {
	return severalOf("strings", func() []string { return scopeWords(*at) }, func(text string) error {
		scope := maps.Clone(*at)
		if scope == nil {
			scope = ipamv1alpha1.Scope{}
		}
		for word := range strings.SplitSeq(text, ",") {
			if !addRole(word, scope) {
				return errors.New("no object of a role: write each role once, " +
					"as ROLE=NAME, ROLE=KIND/NAME or ROLE=KIND.GROUP/NAME, " +
					"such as network=vpc-1 or network=Network.networking.example.com/vpc-1")
			}
		}
		*at = scope
		return nil
	})
}

// addRole reads the object of a role into a scope. It takes texts such as network=vpc-1, network=Network/vpc-1 or
// network=Network.networking.example.com/vpc-1. If the text has no kind, the kind is the role with a capital letter. ok
// is false for any other text, and if the scope has the role already.
func addRole(text string, into ipamv1alpha1.Scope) (ok bool) {
	role, name, ok := strings.Cut(text, "=")
	if _, given := into[role]; !ok || given || role == "" {
		return false
	}
	ref := ipamv1alpha1.ScopeRef{Kind: kindOfRole(role)}
	if kind, of, named := strings.Cut(name, "/"); named {
		ref.Kind, ref.APIGroup, _ = strings.Cut(kind, ".")
		name = of
	}
	ref.Name = name
	if ref.Kind == "" || ref.Name == "" || strings.Contains(ref.Name, "/") {
		return false
	}
	into[role] = ref
	return true
}

// kindOfRole returns the kind that the objects of a role have by default.
func kindOfRole(role string) string { return strings.ToUpper(role[:1]) + role[1:] }

// scopeWords writes a scope as Scope reads it, in the order of the roles.
func scopeWords(scope ipamv1alpha1.Scope) []string {
	words := make([]string, 0, len(scope))
	for _, role := range slices.Sorted(maps.Keys(scope)) {
		ref := scope[role]
		object := ref.Name
		if ref.APIGroup != "" || ref.Kind != kindOfRole(role) {
			object = ref.String()
		}
		words = append(words, role+"="+object)
	}
	return words
}
