package allocator

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"go4.org/netipx"
)

// keyspace makes and reads the keys of a ledger. It is the prefix of all keys.
type keyspace string

// newKeyspace is that of a prefix; empty: the default one.
func newKeyspace(prefix string) keyspace {
	return keyspace(cmp.Or(strings.TrimSuffix(prefix, "/"), DefaultPrefix))
}

func (k keyspace) ledger() string             { return string(k) + "/ledger" }
func (k keyspace) spaces() string             { return string(k) + "/spaces/" }
func (k keyspace) head(s SpaceID) string      { return k.spaces() + string(s) + "/head" }
func (k keyspace) blocks(s SpaceID) string    { return k.spaces() + string(s) + "/blocks/" }
func (k keyspace) pools() string              { return string(k) + "/pools/" }
func (k keyspace) pool(id PoolID) string      { return k.pools() + string(id) }
func (k keyspace) waiters(s SpaceID) string   { return k.spaces() + string(s) + "/waiters" }
func (k keyspace) claim(id ClaimID) string    { return string(k) + "/claims/" + string(id) }
func (k keyspace) reservations() string       { return k.claim(reservationPrefix) }
func (k keyspace) workspaces() string         { return string(k) + "/workspaces/" }
func (k keyspace) turns() string              { return string(k) + "/turns/" }
func (k keyspace) turn(s SpaceID) string      { return k.turns() + string(s) }
func (k keyspace) roots(c ClusterName) string { return k.workspaces() + string(c) + "/roots" }
func (k keyspace) quotas() string             { return string(k) + "/quotas/" }
func (k keyspace) quota(class string, c ClusterName) string {
	return k.quotas() + url.PathEscape(class) + "/" + string(c)
}
func (k keyspace) slices(id PoolID) string               { return string(k) + "/slices/" + string(id) + "/" }
func (k keyspace) slicesHead(id PoolID) string           { return k.slices(id) + "head" }
func (k keyspace) members(id PoolID) string              { return k.slices(id) + "members/" }
func (k keyspace) slice(id PoolID, c ClusterName) string { return k.members(id) + string(c) }

func (k keyspace) block(s SpaceID, p netip.Prefix) string {
	return k.blocks(s) + formatPrefix(p)
}

// within is the range of the blocks that lie in a prefix, itself included.
func (k keyspace) within(s SpaceID, p netip.Prefix) (from, end string) {
	last := netipx.PrefixLastIP(p)
	return k.block(s, p), k.block(s, netip.PrefixFrom(last, last.BitLen())) + "\x00"
}

// kind says what a key is about.
type kind int

const (
	otherKey kind = iota
	headKey
	blockKey
	poolKey
	rootsKey
	quotaKey
	turnKey
	waitersKey
	reservationKey
)

// name is what a key says. Only the fields of its kind are set.
type name struct {
	kind    kind
	space   SpaceID
	prefix  netip.Prefix
	pool    PoolID
	cluster ClusterName
	class   string
	claim   ClaimID
}

// parse reads a key that the watch or the snapshot met. Keys that do not
// concern the tables in memory are otherKey. A block whose prefix cannot be read has none,
// and comes with a *DamageError.
func (k keyspace) parse(key string) (name, error) {
	if rest, ok := strings.CutPrefix(key, k.spaces()); ok {
		return parseSpace(key, rest)
	}
	if rest, ok := strings.CutPrefix(key, k.pools()); ok {
		return name{kind: poolKey, pool: PoolID(rest)}, nil
	}
	if rest, ok := strings.CutPrefix(key, k.workspaces()); ok {
		if cluster, ok := strings.CutSuffix(rest, "/roots"); ok {
			return name{kind: rootsKey, cluster: ClusterName(cluster)}, nil
		}
	}
	if rest, ok := strings.CutPrefix(key, k.quotas()); ok {
		return parseQuota(key, rest)
	}
	if rest, ok := strings.CutPrefix(key, k.turns()); ok {
		return name{kind: turnKey, space: SpaceID(rest)}, nil
	}
	if id, ok := strings.CutPrefix(key, k.claim("")); ok {
		if cluster, ok := reservedBy(ClaimID(id)); ok {
			return name{kind: reservationKey, claim: ClaimID(id), cluster: cluster}, nil
		}
	}
	return name{}, nil
}

func parseQuota(key, rest string) (name, error) {
	class, cluster, _ := strings.Cut(rest, "/")
	class, err := url.PathUnescape(class)
	if err != nil {
		return name{}, fmt.Errorf("key %s: %w", key, err)
	}
	return name{kind: quotaKey, class: class, cluster: ClusterName(cluster)}, nil
}

func parseSpace(key, rest string) (name, error) {
	space, rest, _ := strings.Cut(rest, "/")
	switch rest {
	case "head":
		return name{kind: headKey, space: SpaceID(space)}, nil
	case "waiters":
		return name{kind: waitersKey, space: SpaceID(space)}, nil
	}
	written, ok := strings.CutPrefix(rest, "blocks/")
	if !ok {
		return name{}, nil
	}
	p, err := parsePrefix(written)
	if err != nil {
		err = &DamageError{Key: key, Err: err}
	}
	return name{kind: blockKey, space: SpaceID(space), prefix: p}, err
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
