package field

import (
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// A word is one of those there are, whatever its case, or is refused.
func FuzzWord(f *testing.F) {
	f.Add("ipv4")
	f.Add("IPV6")
	f.Add("")
	f.Add("ıpv4")
	f.Fuzz(func(t *testing.T, word string) {
		var got ipamv1alpha1.IPFamily
		err := Word(&got, ipamv1alpha1.IPv4, ipamv1alpha1.IPv6).Set(word)
		known := word != "" && strings.EqualFold(word, string(got))
		if (err == nil) != known {
			t.Errorf("%q is %q, %v", word, got, err)
		}
	})
}
