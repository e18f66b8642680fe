package plan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Of is the plan of a workspace: its root pools, and for each claim that is bound a claim for
// exactly its block. What no plan can say is left out, and returned with the reason.
func Of(pools []ipamv1alpha1.IPPool, claims []ipamv1alpha1.IPClaim) (p *Plan, left []string) {
	p = &Plan{}
	carved := map[string]bool{}
	for i := range pools {
		pool := &pools[i]
		if parent := pool.Spec.ParentPoolRef; parent != nil {
			carved[pool.Name] = true
			left = append(left, fmt.Sprintf("pool %s: it is carved from pool %s, and its block cannot be asked for", pool.Name, parent.Name))
			continue
		}
		p.Pools = append(p.Pools, Pool{IPPool: exportedPool(pool)})
	}
	for i := range claims {
		claim := &claims[i]
		name := claim.Namespace + "/" + claim.Name
		from := claim.Status.PoolRef
		switch bound := meta.IsStatusConditionTrue(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated); {
		case !bound || claim.Status.AllocatedCIDR == "" || from == nil:
			left = append(left, fmt.Sprintf("claim %s: it waits, and holds no block", name))
		case from.ProjectRef == nil && carved[from.Name]:
			left = append(left, fmt.Sprintf("claim %s: its pool %s is left out", name, from.Name))
		default:
			p.Claims = append(p.Claims, Claim{IPClaim: exportedClaim(claim)})
		}
	}
	slices.SortFunc(p.Pools, func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Claims, func(a, b Claim) int { return strings.Compare(a.name(), b.name()) })
	return p, left
}

func exportedPool(pool *ipamv1alpha1.IPPool) *ipamv1alpha1.IPPool {
	exported := &ipamv1alpha1.IPPool{
		TypeMeta: typeOf("IPPool"), Spec: *pool.Spec.DeepCopy(),
		ObjectMeta: metav1.ObjectMeta{Name: pool.Name, Labels: pool.Labels, Annotations: kept(pool)},
	}
	if block, err := ParseBlock(string(pool.Spec.CIDR)); err == nil {
		exported.Spec.IPFamily = familyIn(pool.Spec.IPFamily, block)
	}
	setDefaults(exported)
	return exported
}

// Comparable is the spec of a pool in the one form in which two can be compared: with the defaults
// of the server, without a family that the CIDR says as well, and lists that are sets in order.
func Comparable(pool *ipamv1alpha1.IPPool) ipamv1alpha1.IPPoolSpec {
	spec := exportedPool(pool).Spec
	slices.Sort(spec.ClassNames)
	slices.Sort(spec.Consumers)
	slices.Sort(spec.ExcludedCIDRs)
	return spec
}

// exportedClaim asks for the block that a claim holds, by what it asked for before. A selector
// becomes the pool that it has found; unmetPolicy has no meaning any more.
func exportedClaim(claim *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPClaim {
	exported := &ipamv1alpha1.IPClaim{
		TypeMeta:   typeOf("IPClaim"),
		ObjectMeta: metav1.ObjectMeta{Name: claim.Name, Namespace: claim.Namespace, Labels: claim.Labels, Annotations: kept(claim)},
	}
	spec, asked := &exported.Spec, claim.Spec.DeepCopy()
	spec.ClassName, spec.PoolRef, spec.Scope = asked.ClassName, asked.PoolRef, asked.Scope
	switch {
	case asked.PoolSelector != nil:
		spec.PoolRef = claim.Status.PoolRef.DeepCopy()
	case asked.PoolRef == nil:
		spec.ClassName = claim.Status.ClassName // the default class, by its name
	}
	spec.ReclaimPolicy, spec.RetainedPolicy, spec.OwnerRef = asked.ReclaimPolicy, asked.RetainedPolicy, asked.OwnerRef
	spec.Address = claim.Status.AllocatedCIDR
	if block, err := ParseBlock(claim.Status.AllocatedCIDR); err == nil {
		spec.Address = addressOf(block)
	}
	return exported
}
