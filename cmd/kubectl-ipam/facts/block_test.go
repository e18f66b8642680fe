package facts

import (
	"strings"
	"testing"
)

// An IPv4 address in IPv6 form is that address.
func TestParseBlock_Mapped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"::ffff:10.8.1.7": "10.8.1.7/32", "::ffff:10.8.1.7/128": "10.8.1.7/32", "::ffff:10.8.1.0/120": "10.8.1.0/24", "::ffff:0:0/95": "::fffe:0:0/95", "2001:db8::7": "2001:db8::7/128",
	} {
		if got, err := ParseBlock(text); err != nil || got.String() != want {
			t.Errorf("parseBlock(%s) = %s, %v; want %s", text, got, err, want)
		}
	}
}

// What is given as an address is read as a block in network form, which means the same
// when it is written out; or the caller is told how to write one.
func FuzzParseBlock(f *testing.F) {
	for _, text := range []string{"192.0.2.7", "192.0.2.7/28", "2001:DB8::1", "::ffff:10.0.0.1", "fe80::1%eth0", "010.0.0.1", "10.0.0.0/33", "", "10.0.0.0 /8"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		block, err := ParseBlock(text)
		if err != nil {
			if !strings.Contains(err.Error(), "write one such as") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if block != block.Masked() {
			t.Errorf("%q is read as %s", text, block)
		}
		if again, err := ParseBlock(block.String()); err != nil || again != block {
			t.Errorf("%q is read as %s, and that as %s, %v", text, block, again, err)
		}
	})
}
