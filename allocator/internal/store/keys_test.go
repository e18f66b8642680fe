package store

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

func TestFormatPrefix_PadsEachNumber(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.0/8":          "010.000.000.000-08",
		"255.255.255.255/32":  "255.255.255.255-32",
		"0.0.0.0/0":           "000.000.000.000-00",
		"2001:db8::/32":       "2001:0db8:0000:0000:0000:0000:0000:0000-032",
		"::/0":                "0000:0000:0000:0000:0000:0000:0000:0000-000",
		"::ffff:10.0.0.0/104": "0000:0000:0000:0000:0000:ffff:0a00:0000-104",
	} {
		if got := formatPrefix(netip.MustParsePrefix(in)); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestFormatPrefix_SortsByAddress(t *testing.T) {
	for _, in := range [][]string{
		{"0.0.0.0/0", "9.0.0.0/8", "10.0.0.0/8", "10.0.0.0/9", "10.0.0.0/24", "10.0.0.128/25", "100.0.0.0/8"},
		{"::/0", "2001:db8::/32", "2001:db8::/64", "2001:db8:0:10::/64", "2001:db8:1::/48"},
	} {
		var keys []string
		for _, p := range in {
			keys = append(keys, formatPrefix(netip.MustParsePrefix(p)))
		}
		if !slices.IsSorted(keys) {
			t.Errorf("%v are not sorted", keys)
		}
	}
}

func FuzzFormatPrefix(f *testing.F) {
	f.Add([]byte{10, 0, 0, 0}, 8)
	f.Add(make([]byte, 16), 128)
	f.Fuzz(func(t *testing.T, address []byte, bits int) {
		addr, ok := netip.AddrFromSlice(address)
		p := netip.PrefixFrom(addr, bits).Masked()
		if !ok || !p.IsValid() {
			return
		}
		if got, err := parsePrefix(formatPrefix(p)); err != nil || got != p {
			t.Errorf("%s is read back as %s, %v", p, got, err)
		}
	})
}

func TestParse_IsTheInverseOfTheKeys(t *testing.T) {
	k := Keys("/ipam/v1")
	p := netip.MustParsePrefix("10.0.0.0/24")
	for key, want := range map[string]Key{
		k.Space("s").Head():   {Kind: HeadKey, Space: "s"},
		k.Space("s").Block(p): {Kind: BlockKey, Space: "s", Prefix: p},
		k.Pool("p"):           {Kind: PoolKey, Pool: "p"},
		k.Claim("c"):          {},
		k.ledger():            {},
		k.origin():            {},
		"/ipam/v1/what":       {},
	} {
		if got, err := k.Parse(key); err != nil || got != want {
			t.Errorf("%s: got %v, %v", key, got, err)
		}
	}
	if _, err := k.Parse(k.Space("s").Blocks() + "10.0.0.0/24"); err == nil {
		t.Error("a block at an unreadable prefix was passed over")
	}
}

func TestDecode_RefusesADamagedValue(t *testing.T) {
	var version *ledger.VersionError
	for _, value := range []string{"", "{", `{"v":1,"n":"x"}`, `[]`} {
		if _, err := decodeHead("k", []byte(value)); err == nil || errors.As(err, &version) {
			t.Errorf("%q: %v", value, err)
		}
	}
}
