package packed

import (
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// allocation is a packed IPAllocation.
type allocation struct {
	head[*ipamv1alpha1.IPAllocation]
	claim  string    // the name of the claim that the record names; empty for none
	holder uuid.UUID // the UID of that claim
	given  uuid.UUID // the allocation ID of that claim; zero for none
	answer
}

// recordKey has the values that records of one shape usually have in common.
type recordKey struct {
	kind, class, pool, scope string
	phase                    ipamv1alpha1.AllocationPhase
	policy                   ipamv1alpha1.ReclaimPolicy
	generation               int64
	digits                   int // digits of the record's number
}

func keyOfRecord(r *ipamv1alpha1.IPAllocation) recordKey {
	return recordKey{
		r.Kind, r.Spec.ClassName, r.Spec.PoolRef.Name, r.Status.ScopeDigest, r.Status.Phase, r.Spec.ReclaimPolicy,
		r.Generation, digitsOf(r.Status.Number),
	}
}

// newRecord packs a record by a shape. The caller unpacks it, to check that the record has that shape.
func newRecord(r *ipamv1alpha1.IPAllocation, at *home, shape *ipamv1alpha1.IPAllocation) *allocation {
	p := &allocation{
		head:   newHead(at, shape, &r.ObjectMeta, r.Spec.OwnerRef),
		answer: answer{since(r.Status.Conditions), parseBlock(r.Status.AllocatedCIDR)},
	}
	if ref := r.Spec.ClaimRef; ref != nil {
		both := r.Name + ref.Name // one allocation holds both names
		p.name, p.claim, p.holder, p.given = both[:len(r.Name)], both[len(r.Name):], parse(ref.UID), parse(ref.AllocationID)
	}
	return p
}

// shapeOfRecord returns the shape of records like this one.
func shapeOfRecord(r *ipamv1alpha1.IPAllocation) *ipamv1alpha1.IPAllocation {
	shape := r.DeepCopy()
	status := &shape.Status
	blank(&shape.ObjectMeta)
	blankAnswer(status.Conditions, &status.AllocatedCIDR, &status.Address)
	blankNumber(status.Number)
	shape.Spec.OwnerRef, shape.Spec.ClaimRef = nil, nil
	return shape
}

// whole returns the record as it was before it was packed.
func (p *allocation) whole() *ipamv1alpha1.IPAllocation {
	r := p.shape.DeepCopy()
	p.head.whole(&r.ObjectMeta)
	r.Spec.OwnerRef = p.owner().DeepCopy()
	if p.claim != "" {
		r.Spec.ClaimRef = &ipamv1alpha1.ClaimRef{
			Name: p.claim, UID: types.UID(p.holder.String()), AllocationID: text(p.given),
		}
	}
	status := &r.Status
	p.restoreNumber(status.Number)
	p.restore(status.Conditions, &status.AllocatedCIDR, &status.Address)
	return r
}

// DeepCopyObject implements runtime.Object. The copy is unpacked.
func (p *allocation) DeepCopyObject() runtime.Object { return p.whole() }
