package packed

import (
	"math/bits"
	"strings"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// own stands in a shape for a value that each object has for itself.
const own = "\x00"

// claim is a packed IPClaim.
type claim struct {
	head[*ipamv1alpha1.IPClaim]
	allocation uuid.UUID // its allocation ID; zero for none
	answer
}

// answer has the values in the status of a claim or record that differ from object to object.
type answer struct {
	at    int64 // last transition of the conditions, in seconds
	block block // the zero block: the object has none
}

// claimKey has the values that claims of one shape usually have in common.
type claimKey struct {
	kind, class, pool, scope string
	phase                    ipamv1alpha1.ClaimPhase
	reason                   string
	generation               int64
	length                   int32
	digits                   int // digits of the claim's number
}

func keyOfClaim(c *ipamv1alpha1.IPClaim) claimKey {
	key := claimKey{
		kind: c.Kind, class: c.Status.ClassName, scope: ipamv1alpha1.ScopeColumn(c.Spec.Scope), phase: c.Status.Phase,
		generation: c.Generation, length: c.Spec.PrefixLength, digits: digitsOf(c.Status.Number),
	}
	if c.Status.PoolRef != nil {
		key.pool = c.Status.PoolRef.Name
	}
	if len(c.Status.Conditions) > 0 {
		key.reason = c.Status.Conditions[0].Reason
	}
	return key
}

// newClaim packs a claim by a shape. The caller unpacks it, to check that the claim has that shape.
func newClaim(c *ipamv1alpha1.IPClaim, at *home, shape *ipamv1alpha1.IPClaim) *claim {
	return &claim{
		head: newHead(at, shape, &c.ObjectMeta, c.Spec.OwnerRef), allocation: parse(c.Status.AllocationID),
		answer: answer{since(c.Status.Conditions), parseBlock(c.Status.AllocatedCIDR)},
	}
}

// shapeOfClaim returns the shape of claims like this one.
func shapeOfClaim(c *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPClaim {
	shape := c.DeepCopy()
	status := &shape.Status
	blank(&shape.ObjectMeta)
	blankAnswer(status.Conditions, &status.AllocatedCIDR, &status.Address)
	blankNumber(status.Number)
	if ref := status.BoundAllocationRef; ref != nil && ref.Name == recordName(c.Namespace, c.Name) {
		ref.Name = own
	}
	shape.Spec.OwnerRef, status.AllocationID = nil, ""
	return shape
}

// whole returns the claim as it was before it was packed.
func (p *claim) whole() *ipamv1alpha1.IPClaim {
	c := p.shape.DeepCopy()
	p.head.whole(&c.ObjectMeta)
	c.Spec.OwnerRef = p.owner().DeepCopy()
	status := &c.Status
	if ref := status.BoundAllocationRef; ref != nil && ref.Name == own {
		ref.Name = recordName(c.Namespace, c.Name)
	}
	p.restoreNumber(status.Number)
	status.AllocationID = text(p.allocation)
	p.restore(status.Conditions, &status.AllocatedCIDR, &status.Address)
	return c
}

// DeepCopyObject implements runtime.Object. The copy is unpacked.
func (p *claim) DeepCopyObject() runtime.Object { return p.whole() }

func recordName(namespace, claim string) string {
	return ipamv1alpha1.AllocationNames(namespace, claim)[0]
}

// since returns the last transition of the first condition, in seconds.
func since(conditions []metav1.Condition) int64 {
	if len(conditions) == 0 {
		return 0
	}
	return conditions[0].LastTransitionTime.Unix()
}

// blankAnswer removes an answer from the status of a shape.
func blankAnswer(conditions []metav1.Condition, cidr, address *string) {
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.Time{}
		if *cidr != "" {
			conditions[i].Message = strings.Replace(conditions[i].Message, *cidr, own, 1)
		}
	}
	for _, text := range []*string{cidr, address} {
		if *text != "" {
			*text = own
		}
	}
}

// restore puts back the values that blankAnswer removes.
func (a answer) restore(conditions []metav1.Condition, cidr, address *string) {
	prefix := a.block.prefix()
	text := prefix.String()
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.Unix(a.at, 0)
		conditions[i].Message = strings.Replace(conditions[i].Message, own, text, 1)
	}
	if *cidr == own {
		*cidr = text
	}
	if *address == own {
		*address = prefix.Addr().String()
	}
}

// A number is the last bits of an address. In its place, a shape has the count of its binary digits, so that there are
// few shapes.

// digitsOf returns how many binary digits a number has; -1 for none.
func digitsOf(number *int64) int {
	if number == nil {
		return -1
	}
	return bits.Len64(uint64(*number))
}

// blankNumber replaces a number by how many binary digits it has.
func blankNumber(number *int64) {
	if number != nil {
		*number = int64(digitsOf(number))
	}
}

// restoreNumber puts back the number that blankNumber replaces.
func (a answer) restoreNumber(number *int64) {
	if number == nil {
		return
	}
	digits := ipamv1alpha1.ClassNumber{Bits: int32(*number)}
	*number = digits.Of(a.block.prefix().Addr())
}
