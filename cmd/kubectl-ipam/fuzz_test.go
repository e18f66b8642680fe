package main

import (
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// What is given as an address is read as a block in network form, which means the same
// when it is written out; or the caller is told how to write one.
func FuzzParseBlock(f *testing.F) {
	for _, text := range []string{"192.0.2.7", "192.0.2.7/28", "2001:DB8::1", "::ffff:10.0.0.1", "fe80::1%eth0", "010.0.0.1", "10.0.0.0/33", "", "10.0.0.0 /8"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		block, err := parseBlock(text)
		if err != nil {
			if !strings.Contains(err.Error(), "write one such as") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if block != block.Masked() {
			t.Errorf("%q is read as %s", text, block)
		}
		if again, err := parseBlock(block.String()); err != nil || again != block {
			t.Errorf("%q is read as %s, and that as %s, %v", text, block, again, err)
		}
	})
}

// A word is one of those there are, whatever its case, or is refused.
func FuzzChoice(f *testing.F) {
	f.Add("ipv4")
	f.Add("IPV6")
	f.Add("")
	f.Add("ıpv4")
	f.Fuzz(func(t *testing.T, word string) {
		var got ipamv1alpha1.IPFamily
		err := (&choice[ipamv1alpha1.IPFamily]{&got, []ipamv1alpha1.IPFamily{ipamv1alpha1.IPv4, ipamv1alpha1.IPv6}}).Set(word)
		known := word != "" && strings.EqualFold(word, string(got))
		if (err == nil) != known {
			t.Errorf("%q is %q, %v", word, got, err)
		}
	})
}
