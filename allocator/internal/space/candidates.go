package space

import (
	"fmt"
	"net/netip"
	"unique"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Suits refuses a request that the pool can never serve.
func (p *Pool) Suits(r ledger.Request) error {
	switch {
	case r.Exact.IsValid() && !Contains(p.CIDR, r.Exact):
		return ledger.ErrOutOfRange
	case !r.Exact.IsValid() && r.Length > p.CIDR.Addr().BitLen():
		return fmt.Errorf("%w: no block of %s can be a /%d", ledger.ErrInvalid, p.CIDR, r.Length)
	case r.Exact.IsValid():
		return p.excludes(r.Exact)
	}
	return nil
}

// excludes refuses a prefix that overlaps an exclusion of the pool.
func (p *Pool) excludes(prefix netip.Prefix) error {
	for _, excluded := range p.Excluded {
		if excluded.Overlaps(prefix) {
			return &ledger.ExcludedError{Pool: p.ID, Excluded: excluded}
		}
	}
	return nil
}

// Vacant returns the prefix, if it lies in the pool and overlaps no block, and else refuses it. The prefix may be
// excluded.
func (p *Pool) Vacant(prefix netip.Prefix) (netip.Prefix, error) {
	switch {
	case !Contains(p.CIDR, prefix):
		return netip.Prefix{}, ledger.ErrOutOfRange
	case p.Index.Overlapping(prefix) > 0:
		return netip.Prefix{}, ledger.ErrInUse
	}
	return prefix, nil
}

// exact returns the prefix, if it is free, and else refuses it.
func (p *Pool) exact(prefix netip.Prefix) (netip.Prefix, error) {
	if p.Index.Free(prefix) {
		return prefix, nil
	}
	if block, c, cools := p.In.Cooling.at(prefix); cools {
		return netip.Prefix{}, &ledger.CoolingError{Prefix: block, Until: c.End()}
	}
	return netip.Prefix{}, ledger.ErrInUse
}

// Room returns the prefix that is held for a request, or else a free prefix for it, or else refuses the request.
func (p *Pool) Room(r ledger.Request) (netip.Prefix, error) {
	if prefix, ok := p.HeldFor(r); ok {
		return prefix, nil
	}
	if r.Exact.IsValid() {
		return p.exact(r.Exact)
	}
	if prefix, ok := p.Index.Find(r.Length, r.Strategy); ok {
		return prefix, nil
	}
	largest, ok := p.Index.Largest()
	if !ok {
		largest = -1
	}
	return netip.Prefix{}, &ledger.ExhaustedError{
		Pool: p.ID, Length: r.Length, Largest: largest, NextRelease: p.Cools.Next(),
	}
}

// fits reports whether there is room for a waiter.
func (p *Pool) fits(w *Waiter) bool {
	if w.request.Exact.IsValid() {
		return p.Index.Free(w.request.Exact)
	}
	largest, ok := p.Index.Largest()
	return ok && w.request.Length >= largest
}

// Contains reports whether a prefix lies in a CIDR.
func Contains(cidr, prefix netip.Prefix) bool {
	return cidr.Overlaps(prefix) && cidr.Bits() <= prefix.Bits()
}

// FormerBlock returns the cooling block that a request gets back. The same pool and class have given that block to an
// object of the same name, and it has the length or the prefix that the request asks for.
func (p *Pool) FormerBlock(r ledger.Request) (netip.Prefix, bool) {
	known := p.In.Cooling
	if len(known.Blocks) == 0 {
		return netip.Prefix{}, false
	}
	by := unique.Make(Owner{Pool: r.Pool, cluster: r.Holder.Tenant(), class: r.Class, slice: r.Slice})
	for _, prefix := range known.former[formerOf(r.Holder)] {
		wanted := r.Exact == prefix || !r.Exact.IsValid() && r.Length == prefix.Bits()
		c := known.Blocks[prefix]
		if wanted && c.Owner == by && Contains(p.CIDR, prefix) && p.excludes(prefix) == nil {
			return prefix, true
		}
	}
	return netip.Prefix{}, false
}
