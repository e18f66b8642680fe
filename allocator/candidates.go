package allocator

import (
	"fmt"
	"net/netip"
)

// suits refuses what the pool could never give.
func (p *pool) suits(r Request) error {
	switch {
	case r.Exact.IsValid() && !contains(p.CIDR, r.Exact):
		return ErrOutOfRange
	case !r.Exact.IsValid() && r.Length > p.CIDR.Addr().BitLen():
		return fmt.Errorf("%w: no block of %s can be a /%d", ErrInvalid, p.CIDR, r.Length)
	case r.Exact.IsValid():
		return p.excludes(r.Exact)
	}
	return nil
}

// excludes refuses a prefix that overlaps an exclusion of the pool.
func (p *pool) excludes(prefix netip.Prefix) error {
	for _, excluded := range p.Excluded {
		if excluded.Overlaps(prefix) {
			return &ExcludedError{Pool: p.ID, Excluded: excluded}
		}
	}
	return nil
}

// vacant returns a prefix of the pool in which nobody has a block, excluded or not.
func (p *pool) vacant(prefix netip.Prefix) (netip.Prefix, error) {
	switch {
	case !contains(p.CIDR, prefix):
		return netip.Prefix{}, ErrOutOfRange
	case p.index.Overlapping(prefix) > 0:
		return netip.Prefix{}, ErrInUse
	}
	return prefix, nil
}

// exact returns a prefix of the pool, or says why it cannot be had.
func (p *pool) exact(prefix netip.Prefix) (netip.Prefix, error) {
	if p.index.Free(prefix) {
		return prefix, nil
	}
	if block, c, cools := p.space.coolingAt(prefix); cools {
		return netip.Prefix{}, &CoolingError{Prefix: block, Until: c.end()}
	}
	return netip.Prefix{}, ErrInUse
}

// contains reports whether a prefix lies in a CIDR.
func contains(cidr, prefix netip.Prefix) bool {
	return cidr.Overlaps(prefix) && cidr.Bits() <= prefix.Bits()
}
