package packed

import "net/netip"

// block is a prefix without the pointer that a [netip.Prefix] has.
type block struct {
	addr   [16]byte
	length uint8 // of the prefix
	family uint8 // 4 or 6; 0: there is none
}

// parseBlock reads a prefix. From a text in another form than its own, prefix makes another text.
func parseBlock(cidr string) block {
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return block{} // compared when it is unpacked
	}
	b := block{addr: p.Addr().As16(), length: uint8(p.Bits()), family: 6}
	if p.Addr().Is4() {
		b.family = 4
	}
	return b
}

// prefix is the block; the zero Prefix for none.
func (b block) prefix() netip.Prefix {
	addr := netip.AddrFrom16(b.addr)
	switch b.family {
	case 0:
		return netip.Prefix{}
	case 4:
		addr = addr.Unmap()
	}
	return netip.PrefixFrom(addr, int(b.length))
}
