package resolve

import (
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// ParentQuery finds the pools from which a child pool, or a pool by class, may be carved.
type ParentQuery struct {
	Child          *ipamv1alpha1.IPPool
	From, Platform directory.Workspace
}

// Resolve returns the parents from which the pool may be carved: the parent that the pool names, or the pools that a
// claim by its class could use. If there are none, the error is an *outcome.Refusal.
func (q ParentQuery) Resolve(catalog Catalog) (Plan, error) {
	spec := q.Child.Spec
	claim := Query{
		Claim: &ipamv1alpha1.IPClaim{Spec: ipamv1alpha1.IPClaimSpec{
			ClassName: spec.ParentClassName, PoolRef: spec.ParentPoolRef,
			PrefixLength: int32(spec.Length()), Address: string(spec.Address), //nolint:gosec // at most 128
		}},
		From: q.From, Platform: q.Platform,
	}
	if spec.ParentPoolRef != nil {
		claim.slice = q.Child
		return claim.byPool(catalog)
	}
	claim.Claim.Spec.Scope = spec.Scope
	if refusal := claim.offersPools(catalog); refusal != nil {
		return Plan{ClassName: spec.ParentClassName}, refusal
	}
	return claim.byClass(catalog)
}

// offersPools refuses a class whose addresses belong to a scope. It does not refuse a class that the workspace may not
// use: byClass does, in the same words as for a class that does not exist.
func (q Query) offersPools(catalog Catalog) *outcome.Refusal {
	class, err := q.namedOrDefault(catalog)
	if err == nil && ofNetworks(class.Spec) {
		return refuse(ipamv1alpha1.ReasonNoOfferingPool,
			"class %q has poolPer, parentClassName or uniqueWithin, and offers no pools: create another pool "+
				"by a class without them, or claim by this class with target ScopeRange", class.Name)
	}
	return nil
}

// Admitted reports whether the child may be carved from a parent of the owner's workspace. It does not check room,
// limits and the class.
func (q ParentQuery) Admitted(parent *ipamv1alpha1.IPPool, owner directory.Workspace) bool {
	if q.Child.Spec.ParentClassName != "" {
		return authored(parent) && Query{From: q.From}.mayDraw(parent, owner)
	}
	length, lengths := int32(q.Child.Spec.Length()), parent.Spec.Allocation //nolint:gosec // at most 128
	given := length >= lengths.MinPrefixLength && (lengths.MaxPrefixLength == 0 || length <= lengths.MaxPrefixLength)
	return given && authored(parent) && Query{slice: q.Child, From: q.From}.mayName(parent, owner)
}

// ParentNotReady refuses a child whose parent exists and has no CIDR yet.
func ParentNotReady(name string) *outcome.Refusal {
	return refuse(ipamv1alpha1.ReasonPoolNotFound, "pool %q is not ready", name)
}

// First chooses the refusal to report among several: a refusal that waits before one that is stalled. Without any, it
// returns the parameter none.
func First(refusals []*outcome.Refusal, none *outcome.Refusal) *outcome.Refusal {
	return first(refusals, none)
}
