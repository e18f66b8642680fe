// Package plan reads and writes address plans, as CSV or as YAML. A plan has the pools of a workspace, the blocks that
// they exclude, and the claims for exact blocks. The package asks no server and changes nothing there.
//
// [ReadCSV] and [ReadYAML] read a plan, and [Plan.Check] finds its contradictions. [WriteCSV] and [Plan.Objects] write
// a plan, which can be read again.
package plan

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go4.org/netipx"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Plan is what a file describes. The zero value describes nothing.
type Plan struct {
	Pools  []Pool
	Claims []Claim
	// LeftOut is how many rows were not read because Options.LeaveOut says so.
	LeftOut int
	// incomplete is set if a pool of the file could not be read. It may be the pool that a line lacks.
	incomplete bool
	// unread has the blocks of the rows whose kind cannot be read: each row may be a pool.
	unread []netip.Prefix
}

// lacks reports whether a pool that could not be read may contain the block.
func (p *Plan) lacks(block netip.Prefix) bool {
	return p.incomplete || slices.ContainsFunc(p.unread, func(pool netip.Prefix) bool { return contains(pool, block) })
}

// Pool is a pool with its block, and the line of the file that describes it.
type Pool struct {
	Line int
	*ipamv1alpha1.IPPool
	// block is the block of the spec, if the pool was read from a file.
	block netip.Prefix
}

// Claim is a claim for an exact block, and the line of the file that describes it.
type Claim struct {
	Line int
	*ipamv1alpha1.IPClaim
	// block is the block of the spec, if the claim was read from a file.
	block netip.Prefix
}

// Problem says what is wrong with a line, and what to write instead.
type Problem struct {
	// Line counts from 1. 0 stands for the whole file.
	Line    int    `json:"line"`
	Message string `json:"message"`
}

// Error implements error. It does not name the file.
func (p Problem) Error() string { return fmt.Sprintf("%d: %s", p.Line, p.Message) }

// problems collects the problems of a file.
type problems []Problem

func (p *problems) add(line int, format string, args ...any) {
	*p = append(*p, Problem{Line: line, Message: short(fmt.Sprintf(format, args...))})
}

// notUTF8 reports whether a file is in another encoding, and adds a problem if it is: otherwise, letters in the names
// of owners would be replaced silently.
func (p *problems) notUTF8(data []byte) bool {
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if !utf8.Valid(text) {
			p.add(line, "it has characters that are not UTF-8: save the file as UTF-8")
			return true
		}
	}
	return false
}

// Join returns all problems of a file, by line.
func Join(some, more []Problem) []Problem { return problems(slices.Concat(some, more)).sorted() }

// short cuts a message to a length that people read: a cell may have millions of characters.
func short(message string) string {
	const most = 1024
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most], "") + "…"
}

// quoted quotes a text. If the text has letters beyond ASCII, it is written a second time with these escaped, because
// some of them look like ASCII.
func quoted(text string) string {
	shown, ascii := strconv.Quote(text), strconv.QuoteToASCII(text)
	if shown != ascii {
		return shown + " (" + ascii + ")"
	}
	return shown
}

// sorted sorts the problems by line.
func (p problems) sorted() []Problem {
	slices.SortStableFunc(p, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return p
}

// name returns the name of a claim with its namespace, as it is shown.
func (c Claim) name() string { return c.Namespace + "/" + c.Name }

// index finds the pools of a plan.
type index struct {
	byBlock map[netip.Prefix]Pool
	byName  map[string]Pool
}

// index returns an index of the pools. Of several pools with one CIDR or name it has the first.
func (p *Plan) index() index {
	found := index{byBlock: map[netip.Prefix]Pool{}, byName: map[string]Pool{}}
	for _, pool := range slices.Backward(p.Pools) {
		found.byName[pool.Name], found.byBlock[pool.block] = pool, pool
	}
	return found
}

// find returns the pool with this name or, if the name is empty, the smallest pool that contains the block.
func (x index) find(name string, block netip.Prefix) (_ Pool, ok bool) {
	if name != "" {
		pool, ok := x.byName[name]
		return pool, ok
	}
	for bits := block.Bits(); bits >= 0; bits-- {
		if pool, ok := x.byBlock[netip.PrefixFrom(block.Addr(), bits).Masked()]; ok {
			return pool, true
		}
	}
	return Pool{}, false
}

// contains reports whether outer has all addresses of inner.
func contains(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// ParseBlock reads a network such as 10.0.0.0/8, or an address such as 192.0.2.7, in any unambiguous form. The error
// says what to write instead.
func ParseBlock(text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, errors.New("there is no block: " +
			"write a network such as 10.0.0.0/8 or an address such as 192.0.2.7")
	}
	if r, ok, err := parseRange(text); ok {
		if err == nil {
			err = fmt.Errorf("%s is a range, and a block is a prefix: write %s", text, few(r.Prefixes(), 4))
		}
		return netip.Prefix{}, err
	}
	host, bits, isNetwork := strings.Cut(text, "/")
	address, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		err = fmt.Errorf("%s is no block: write a network such as 10.0.0.0/8 or 2001:db8::/32, "+
			"or an address such as 192.0.2.7", quoted(text))
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
		return netip.Prefix{}, fmt.Errorf("%s has no such prefix length: write 1 to %d after the slash",
			text, address.BitLen())
	}
	prefix := netip.PrefixFrom(address, int(length))
	if prefix.Masked() != prefix {
		return netip.Prefix{}, fmt.Errorf("%s has host bits set: write %s for the network, or %s for the address",
			text, prefix.Masked(), address)
	}
	return prefix, nil
}

// excluded reads what a pool excludes: a block, or a range, which it returns as blocks.
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

// parseRange reads a range such as 192.0.2.5-192.0.2.9. An IPv4 range may also be written as 192.0.2.5-9. ok is false
// if the text is no range. The error of a wrong range says what to write instead.
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
		return r, true, fmt.Errorf("%s ends with %s, which is no address: write a range such as 192.0.2.5-192.0.2.9",
			text, quoted(end))
	case from.Is4() != to.Is4():
		return r, true, fmt.Errorf("%s begins and ends with addresses of different families: "+
			"write a range such as 192.0.2.5-192.0.2.9", text)
	case to.Less(from):
		return r, true, fmt.Errorf("%s ends before it begins: write %s-%s", text, to, from)
	default:
		return r, true, nil
	}
}

// addressOf writes a block as spec.address has it: a single address without a length.
func addressOf(block netip.Prefix) string {
	if block.IsSingleIP() {
		return block.Addr().String()
	}
	return block.String()
}

// few lists the first of some items, and says how many more there are.
func few[T any](items []T, most int) string {
	words := make([]string, 0, most+1)
	for _, item := range items[:min(len(items), most)] {
		words = append(words, fmt.Sprint(item))
	}
	if more := len(items) - most; more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	return strings.Join(words, ", ")
}
