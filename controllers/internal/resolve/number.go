package resolve

import (
	"net/netip"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Number is a number that a claim asks for: the last bits of an address.
type Number struct {
	ipamv1alpha1.ClassNumber
	Value int64
}

// number returns the number that the claim asks for by a class; nil if it asks for none.
func (q Query) number(class *ipamv1alpha1.IPClass) (*Number, error) {
	asked := q.Claim.Spec.Number
	if asked == nil {
		return nil, nil
	}
	if class.Spec.Number == nil {
		return nil, refuse(ipamv1alpha1.ReasonAddressOutOfRange,
			"class %q has no numbers: claim by a class with spec.number, or leave spec.number out", class.Name)
	}
	n := &Number{*class.Spec.Number, *asked}
	if *asked >= 1<<n.Bits {
		return nil, refuse(ipamv1alpha1.ReasonAddressOutOfRange,
			"the numbers of class %q are 0 to %d; %d is outside of this range", class.Name, 1<<n.Bits-1, *asked)
	}
	return n, nil
}

// ExactIn returns the block that the claim asks for in a pool, by address or by number; the zero Prefix if the claim
// takes any block. ok is false if the pool does not have that block.
func (p Plan) ExactIn(pool netip.Prefix) (exact netip.Prefix, ok bool) {
	if p.Number != nil {
		return p.Number.In(pool, p.Number.Value)
	}
	return p.Exact, !p.Exact.IsValid() || pool.Contains(p.Exact.Addr()) && pool.Bits() <= p.Exact.Bits()
}
