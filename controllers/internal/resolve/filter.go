package resolve

import (
	"cmp"
	"fmt"
	"net/netip"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// filter keeps the pools that can serve a claim, and remembers why the others cannot.
type filter struct {
	query    Query
	catalog  Catalog
	family   ipamv1alpha1.IPFamily
	length   int
	number   *Number // nil: the claim asks for none, or not in these pools
	refusals []*outcome.Refusal
}

// pass reports whether the pool can serve the claim. It does not check whether the pool has room.
func (f *filter) pass(pool *ipamv1alpha1.IPPool) bool {
	if !Ready(pool) || pool.Status.IPFamily != f.family {
		return false
	}
	refusal := f.check(pool)
	if refusal != nil {
		f.refusals = append(f.refusals, refusal)
	}
	return refusal == nil
}

func (f *filter) check(pool *ipamv1alpha1.IPPool) *outcome.Refusal {
	if asked := askedFamily(f.query.Claim); asked != "" && asked != f.family {
		return refuse(ipamv1alpha1.ReasonFamilyMismatch,
			"address family %s does not match pool %q, which is %s", asked, pool.Name, f.family)
	}
	if refusal := f.checkExact(pool); refusal != nil {
		return refusal
	}
	return f.checkLength(pool)
}

// checkLength refuses a length that the pool does not hand out. If the claim names the pool, the claim has asked for a
// wrong length. Any other claim can still get another pool.
func (f *filter) checkLength(pool *ipamv1alpha1.IPPool) *outcome.Refusal {
	lengths := poolBounds(pool)
	if f.length == 0 {
		return refuse(ipamv1alpha1.ReasonPrefixLengthRejected,
			"pool %q hands out %s, and the claim gives no prefix length", pool.Name, lengths)
	}
	if lengths.contain(f.length) {
		return nil
	}
	if f.query.Claim.Spec.PoolRef != nil {
		return refuse(ipamv1alpha1.ReasonPrefixLengthRejected,
			"pool %q hands out %s; /%d is outside this range", pool.Name, lengths, f.length)
	}
	return refuse(ipamv1alpha1.ReasonPoolExhausted,
		"pool %q hands out %s, not /%d: %s", pool.Name, lengths, f.length, f.largest(pool, lengths))
}

// largest describes the largest block that the pool can give now.
func (f *filter) largest(pool *ipamv1alpha1.IPPool, lengths bounds) string {
	free := f.catalog.Room(pool, f.length).Largest
	if free < 0 || free > lengths.max {
		return "it has no block to give"
	}
	return fmt.Sprintf("the largest block it can give is a /%d", max(free, lengths.min))
}

func (f *filter) checkExact(pool *ipamv1alpha1.IPPool) *outcome.Refusal {
	plan := Plan{Exact: f.exact(), Number: f.number}
	if plan.Number == nil && !plan.Exact.IsValid() {
		return nil
	}
	cidr, err := netip.ParsePrefix(pool.Status.AllocatedCIDR)
	if err == nil {
		if _, ok := plan.ExactIn(cidr); ok {
			return nil
		}
	}
	if plan.Number != nil {
		return refuse(ipamv1alpha1.ReasonAddressOutOfRange,
			"no pool that may serve this claim has an address with the number %d", plan.Number.Value)
	}
	return refuse(ipamv1alpha1.ReasonAddressOutOfRange, "%s lies in no pool that may serve this claim", plan.Exact)
}

// exactIn returns the block that the claim asks for in a pool that can serve it; the zero Prefix if it takes any.
func (f *filter) exactIn(pool *ipamv1alpha1.IPPool) netip.Prefix {
	cidr, err := netip.ParsePrefix(pool.Status.AllocatedCIDR)
	if err != nil {
		return f.exact()
	}
	exact, _ := Plan{Exact: f.exact(), Number: f.number}.ExactIn(cidr)
	return exact
}

// exact returns the prefix that the claim asks for by address; the zero Prefix if it asks for none.
func (f *filter) exact() netip.Prefix {
	exact, _ := askedPrefix(f.query.Claim)
	return exact
}

// askedLength returns the prefix length that the claim itself gives; 0 if it gives none.
func askedLength(claim *ipamv1alpha1.IPClaim) (int, error) {
	exact, err := askedPrefix(claim)
	if err != nil {
		return 0, err
	}
	if exact.IsValid() {
		return exact.Bits(), nil
	}
	return int(claim.Spec.PrefixLength), nil
}

// askedFamily returns the family that the claim asks for, by name or by address; empty if it takes any.
func askedFamily(claim *ipamv1alpha1.IPClaim) ipamv1alpha1.IPFamily {
	exact, err := askedPrefix(claim)
	if asked := claim.Spec.IPFamily; asked != "" || err != nil || !exact.IsValid() {
		return asked
	}
	return Family(exact)
}

// askedPrefix returns the prefix that the claim asks for by address. A CIDR stays as it is. A bare address gets the
// claim's length, or the length of a single address.
func askedPrefix(claim *ipamv1alpha1.IPClaim) (netip.Prefix, error) {
	text := claim.Spec.Address
	if text == "" {
		return netip.Prefix{}, nil
	}
	if prefix, err := netip.ParsePrefix(text); err == nil {
		if prefix.Bits() == 0 { // which elsewhere means that the claim gives no length
			return netip.Prefix{}, refuse(ipamv1alpha1.ReasonPrefixLengthRejected,
				"%s is not a block; ask for one of length 1 or more", prefix)
		}
		return prefix.Masked(), nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, refuse(ipamv1alpha1.ReasonAddressOutOfRange,
			"%q is no address; write one such as 10.0.0.1 or 10.0.0.0/28", text)
	}
	bits := cmp.Or(int(claim.Spec.PrefixLength), addr.BitLen())
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}, refuse(ipamv1alpha1.ReasonPrefixLengthRejected, "/%d is no length for %s", bits, addr)
	}
	return prefix, nil
}

// bounds is a range of prefix lengths, both ends included.
type bounds struct{ min, max int }

func (b bounds) contain(length int) bool { return b.min <= length && length <= b.max }

func (b bounds) String() string {
	if b.min == b.max {
		return fmt.Sprintf("/%d only", b.min)
	}
	return fmt.Sprintf("/%d to /%d", b.min, b.max)
}

// poolBounds returns the lengths that a pool hands out. No block is larger than the pool itself.
func poolBounds(pool *ipamv1alpha1.IPPool) bounds {
	b := bounds{0, familyBits(pool.Status.IPFamily)}
	if cidr, err := netip.ParsePrefix(pool.Status.AllocatedCIDR); err == nil {
		b.min = cidr.Bits()
	}
	b.min = max(b.min, int(pool.Spec.Allocation.MinPrefixLength))
	if m := int(pool.Spec.Allocation.MaxPrefixLength); m != 0 {
		b.max = min(b.max, m)
	}
	return b
}

// Family returns the family of a prefix.
func Family(p netip.Prefix) ipamv1alpha1.IPFamily {
	if p.Addr().Is4() {
		return ipamv1alpha1.IPv4
	}
	return ipamv1alpha1.IPv6
}

func familyBits(family ipamv1alpha1.IPFamily) int {
	if family == ipamv1alpha1.IPv6 {
		return 128
	}
	return 32
}
