package facts

import (
	"net/netip"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
)

// ParseBlock reads an address or a CIDR.
func ParseBlock(text string) (netip.Prefix, error) {
	if block, err := netip.ParsePrefix(text); err == nil {
		return unmapped(block).Masked(), nil
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, exit.Usagef("%q is no address; write one such as 192.0.2.7, or a block such as 192.0.2.0/28", text)
	}
	return unmapped(netip.PrefixFrom(ip, ip.BitLen())), nil
}

// unmapped is a block of IPv4 that is written in IPv6 form, such as ::ffff:10.8.1.7, as IPv4.
func unmapped(block netip.Prefix) netip.Prefix {
	const mapped = 96 // bits before the IPv4 address
	if !block.Addr().Is4In6() || block.Bits() < mapped {
		return block
	}
	return netip.PrefixFrom(block.Addr().Unmap(), block.Bits()-mapped)
}
