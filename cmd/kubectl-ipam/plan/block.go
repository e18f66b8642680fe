package plan

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"go4.org/netipx"
)

// ParseBlock reads a network such as 10.0.0.0/8 or an address such as 192.0.2.7, in any form that
// is unambiguous. The error says what to write instead.
func ParseBlock(text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, errors.New("there is no block: write a network such as 10.0.0.0/8 or an address such as 192.0.2.7")
	}
	if r, err := netipx.ParseIPRange(text); err == nil {
		return netip.Prefix{}, fmt.Errorf("%s is a range, and a block is a prefix: write %s", text, listOf(r.Prefixes()))
	}
	host, bits, isNetwork := strings.Cut(text, "/")
	address, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		err = fmt.Errorf("%q is no block: write a network such as 10.0.0.0/8 or 2001:db8::/32, or an address such as 192.0.2.7", text)
	case address.Zone() != "":
		err = fmt.Errorf("%s has a zone: write %s", text, address.WithZone(""))
	case address.Is4In6():
		err = fmt.Errorf("%s is an IPv4 address in IPv6 form: write it as IPv4, such as %s", text, address.Unmap())
	}
	if err != nil || !isNetwork {
		return netip.PrefixFrom(address, address.BitLen()), err
	}
	length, err := strconv.ParseUint(bits, 10, 8)
	if err != nil || int(length) > address.BitLen() {
		return netip.Prefix{}, fmt.Errorf("%s has no such prefix length: write 1 to %d after the slash", text, address.BitLen())
	}
	prefix := netip.PrefixFrom(address, int(length))
	if prefix.Masked() != prefix {
		return netip.Prefix{}, fmt.Errorf("%s has host bits set: write %s for the network, or %s for the address", text, prefix.Masked(), address)
	}
	return prefix, nil
}

// parseLength reads 28 as well as /28.
func parseLength(text string) (int, error) {
	length, err := strconv.ParseUint(strings.TrimPrefix(text, "/"), 10, 8)
	if err != nil || length < 1 || length > 128 {
		return 0, fmt.Errorf("%q is no prefix length: write 1 to 32 for IPv4, 1 to 128 for IPv6", text)
	}
	return int(length), nil
}

// excluded reads what a pool excludes: a block, or a range as the blocks that make it up.
func excluded(text string) ([]netip.Prefix, error) {
	if r, err := netipx.ParseIPRange(text); err == nil {
		return r.Prefixes(), nil
	}
	prefix, err := ParseBlock(text)
	return []netip.Prefix{prefix}, err
}

// addressOf is a block as spec.address has it: a single address without its length.
func addressOf(block netip.Prefix) string {
	if block.IsSingleIP() {
		return block.Addr().String()
	}
	return block.String()
}

func listOf[T fmt.Stringer](items []T) string {
	const most = 4
	words := make([]string, 0, most)
	for _, item := range items {
		if len(words) == most {
			words = append(words, "…")
			break
		}
		words = append(words, item.String())
	}
	return strings.Join(words, ", ")
}
