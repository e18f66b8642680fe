package resolve

import (
	"github.com/kcp-ipam/ipam/allocator/index"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// ParentQuery is what a child pool asks of its parent, and from where.
type ParentQuery struct {
	Child *ipamv1alpha1.IPPool
	From  directory.Workspace
}

// Resolve finds the parent that the child may be carved from. A child that may
// be carved nowhere gets an *outcome.Refusal as error.
func (q ParentQuery) Resolve(catalog Catalog) (Candidate, error) {
	ref := q.Child.Spec.ParentPoolRef
	claim := Query{
		slice: q.Child,
		Claim: &ipamv1alpha1.IPClaim{Spec: ipamv1alpha1.IPClaimSpec{
			PoolRef:      ref,
			PrefixLength: q.Child.Spec.PrefixLength,
		}},
		From: q.From,
	}
	plan, err := claim.byPool(catalog)
	if err != nil {
		return Candidate{}, err
	}
	return plan.Candidates[0], nil
}

// IsSlice reports whether a pool is a slice of the parent, and is as slices of it
// are now. Its label alone says that it is one: admission sees to it that none but
// the system gives that.
func IsSlice(child, parent *ipamv1alpha1.IPPool) bool {
	return child.Labels[ipamv1alpha1.LabelSlice] == string(parent.UID) && child.Name == parent.Name &&
		parent.Spec.Slices != nil && child.Spec.PrefixLength == parent.Spec.Slices.PrefixLength
}

// AdmitsToSlices reports whether a workspace is to have a slice of the platform's pool.
func AdmitsToSlices(pool *ipamv1alpha1.IPPool, platform, who directory.Workspace) bool {
	return who.Cluster != platform.Cluster && sharing{platform, pool.Spec.Visibility, pool.Spec.Consumers}.admits(who)
}

// ParentNotReady refuses a child whose parent is there, but has no CIDR.
func ParentNotReady(name string) *outcome.Refusal {
	return refuse(ipamv1alpha1.ReasonPoolNotFound, "pool %q is not ready", name)
}

// Strategy is the ledger's word for the API's.
func Strategy(s ipamv1alpha1.Strategy) index.Strategy {
	switch s {
	case ipamv1alpha1.BestFit:
		return index.BestFit
	case ipamv1alpha1.LeastUtilized:
		return index.LeastUtilized
	default:
		return index.FirstFit
	}
}
