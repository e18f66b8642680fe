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
	if r, ok, err := parseRange(text); ok {
		if err == nil {
			err = fmt.Errorf("%s is a range, and a block is a prefix: write %s", text, listOf(r.Prefixes()))
		}
		return netip.Prefix{}, err
	}
	host, bits, isNetwork := strings.Cut(text, "/")
	address, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		err = fmt.Errorf("%s is no block: write a network such as 10.0.0.0/8 or 2001:db8::/32, or an address such as 192.0.2.7", quoted(text))
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

// excluded reads what a pool excludes: a block, or a range as the blocks that make it up.
func excluded(text string) ([]netip.Prefix, error) {
	if r, ok, err := parseRange(text); ok {
		if err != nil {
			return nil, err
		}
		return r.Prefixes(), nil
	}
	prefix, err := ParseBlock(text)
	if err != nil {
		return nil, fmt.Errorf("%w; a range is written as 192.0.2.5-192.0.2.9", err)
	}
	return []netip.Prefix{prefix}, nil
}

// parseRange reads a range such as 192.0.2.5-192.0.2.9, which of IPv4 may be 192.0.2.5-9. ok says
// that the text is a range, and an error what to write instead of it.
func parseRange(text string) (r netipx.IPRange, ok bool, _ error) {
	at := dash.FindStringIndex(text)
	if at == nil {
		return r, false, nil
	}
	begin, end := strings.TrimSpace(text[:at[0]]), strings.TrimSpace(text[at[1]:])
	from, _ := netip.ParseAddr(begin)
	if !from.IsValid() || from.Zone() != "" {
		return r, false, nil
	}
	if last, err := strconv.ParseUint(end, 10, 8); err == nil && from.Is4() {
		end = fmt.Sprintf("%s.%d", begin[:strings.LastIndexByte(begin, '.')], last)
	}
	to, err := netip.ParseAddr(end)
	switch r := netipx.IPRangeFrom(from, to); {
	case err != nil || to.Zone() != "":
		return r, true, fmt.Errorf("%s ends with %s, which is no address: write a range such as 192.0.2.5-192.0.2.9", text, quoted(end))
	case from.Is4() != to.Is4():
		return r, true, fmt.Errorf("%s begins and ends with addresses of different families: write a range such as 192.0.2.5-192.0.2.9", text)
	case to.Less(from):
		return r, true, fmt.Errorf("%s ends before it begins: write %s-%s", text, to, from)
	default:
		return r, true, nil
	}
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
