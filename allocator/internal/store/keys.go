package store

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go4.org/netipx"
)

// DefaultPrefix is the default prefix of all keys.
const DefaultPrefix = "/ipam/v1"

// Keys makes and reads the keys of a ledger. Its value is the prefix of all keys.
type Keys string

// newKeyspace returns the keys below a prefix; empty: below the default prefix.
func newKeyspace(prefix string) Keys {
	return Keys(cmp.Or(strings.TrimSuffix(prefix, "/"), DefaultPrefix))
}

func (k Keys) ledger() string { return string(k) + "/ledger" }
func (k Keys) origin() string { return string(k) + "/origin" }
func (k Keys) pools() string  { return string(k) + "/pools/" }

// Office returns the key of the head of the ledger, by which one process has the office of its writer.
func (k Keys) Office() string { return string(k) + "/head" }

// Spaces returns the prefix of all keys of spaces.
func (k Keys) Spaces() string { return string(k) + "/spaces/" }

// Space makes the keys of a space.
func (k Keys) Space(id ledger.SpaceID) SpaceKeys {
	return SpaceKeys{Keys: k, id: id, prefix: k.Spaces() + string(id)}
}

// Pool returns the key of a pool's record.
func (k Keys) Pool(id ledger.PoolID) string { return k.pools() + string(id) }

// Claim returns the key that says where the block of a claim is.
func (k Keys) Claim(id ledger.ClaimID) string { return string(k) + "/claims/" + string(id) }

// History returns the prefix of the keys of ended tenures. They are not read when a ledger is opened.
func (k Keys) History() string { return string(k) + "/history/" }

// HistoryOf returns the prefix of the keys of one bucket's tenures, in any space.
func (k Keys) HistoryOf(bucket netip.Prefix) string { return k.History() + formatPrefix(bucket) + "/" }

// SpaceKeys makes the keys of one space, and of the ledger that it is in.
type SpaceKeys struct {
	Keys
	id     ledger.SpaceID
	prefix string
}

// Chapter returns the key of the tenures that a transaction ends in a bucket. head is the revision of the space's head
// that the transaction replaces, and is part of the key. So no two transactions have the same key, and the keys of a
// bucket and a space sort by time.
func (k SpaceKeys) Chapter(bucket netip.Prefix, head int64) string {
	return fmt.Sprintf("%s%s/%016x.000", k.HistoryOf(bucket), k.id, head)
}

// Head returns the key of the space's head.
func (k SpaceKeys) Head() string { return k.prefix + "/head" }

// Blocks returns the prefix of the keys of the space's blocks.
func (k SpaceKeys) Blocks() string { return k.prefix + "/blocks/" }

// Block returns the key of the block at a prefix.
func (k SpaceKeys) Block(p netip.Prefix) string {
	const blocks, longest = "/blocks/", len("2001:0db8:0000:0000:0000:0000:0000:0000-032")
	key := make([]byte, 0, len(k.prefix)+len(blocks)+longest)
	key = append(append(key, k.prefix...), blocks...)
	return string(appendPrefix(key, p))
}

// Within returns the range of the keys of all blocks that lie in a prefix or equal it.
func (k SpaceKeys) Within(p netip.Prefix) (from, end string) {
	last := netipx.PrefixLastIP(p)
	return k.Block(p), k.Block(netip.PrefixFrom(last, last.BitLen())) + "\x00"
}

// Kind says what a key is about.
type Kind int

// The kinds of keys.
const (
	// OtherKey is a key that memory does not need.
	OtherKey Kind = iota
	HeadKey
	BlockKey
	PoolKey
)

// Key is a parsed key. Only the fields of its kind are set.
type Key struct {
	Kind   Kind
	Space  ledger.SpaceID
	Prefix netip.Prefix
	Pool   ledger.PoolID
}

// Parse reads a key. A key that memory does not need has the kind OtherKey. If the prefix of a block cannot be read,
// the Key has no prefix, and the error is a *DamageError.
func (k Keys) Parse(key string) (Key, error) {
	if rest, ok := strings.CutPrefix(key, k.Spaces()); ok {
		return parseSpace(key, rest)
	}
	if rest, ok := strings.CutPrefix(key, k.pools()); ok {
		return Key{Kind: PoolKey, Pool: ledger.PoolID(rest)}, nil
	}
	return Key{}, nil
}

func parseSpace(key, rest string) (Key, error) {
	space, rest, _ := strings.Cut(rest, "/")
	if rest == "head" {
		return Key{Kind: HeadKey, Space: ledger.SpaceID(space)}, nil
	}
	written, ok := strings.CutPrefix(rest, "blocks/")
	if !ok {
		return Key{}, nil
	}
	p, err := parsePrefix(written)
	if err != nil {
		err = &ledger.DamageError{Key: key, Err: err}
	}
	return Key{Kind: BlockKey, Space: ledger.SpaceID(space), Prefix: p}, err
}

// formatPrefix writes a prefix so that keys sort by address, then by length,
// and can be read by people: 010.000.000.000-08, or
// 2001:0db8:0000:0000:0000:0000:0000:0000-032.
func formatPrefix(p netip.Prefix) string { return string(appendPrefix(nil, p)) }

func appendPrefix(b []byte, p netip.Prefix) []byte {
	if !p.Addr().Is4() {
		const digits = "0123456789abcdef"
		for i, octet := range p.Addr().As16() {
			if i > 0 && i%2 == 0 {
				b = append(b, ':')
			}
			b = append(b, digits[octet>>4], digits[octet&0xf])
		}
		return append(b, '-', '0'+byte(p.Bits()/100), '0'+byte(p.Bits()/10%10), '0'+byte(p.Bits()%10))
	}
	for i, octet := range p.Addr().As4() {
		if i > 0 {
			b = append(b, '.')
		}
		b = append(b, '0'+octet/100, '0'+octet/10%10, '0'+octet%10)
	}
	return append(b, '-', '0'+byte(p.Bits()/10), '0'+byte(p.Bits()%10))
}

// parsePrefix is the inverse of formatPrefix and accepts nothing else.
func parsePrefix(s string) (netip.Prefix, error) {
	addr, length, _ := strings.Cut(s, "-")
	bits := 0
	for _, digit := range length {
		bits = 10*bits + int(digit-'0')
	}
	p := netip.PrefixFrom(parseAddr(addr), bits)
	var written [len("2001:0db8:0000:0000:0000:0000:0000:0000-032")]byte
	if !p.IsValid() || p.Masked() != p || string(appendPrefix(written[:0], p)) != s {
		return netip.Prefix{}, fmt.Errorf("%q is not a prefix as this ledger writes it", s)
	}
	return p, nil
}

func parseAddr(s string) netip.Addr {
	if strings.Contains(s, ":") {
		addr, _ := netip.ParseAddr(s)
		return addr
	}
	var octets [4]byte
	i := 0
	for _, c := range []byte(s) {
		if c != '.' {
			octets[i] = 10*octets[i] + c - '0'
		} else if i++; i == len(octets) {
			return netip.Addr{}
		}
	}
	return netip.AddrFrom4(octets)
}
