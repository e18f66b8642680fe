package screen

import (
	"bytes"
	"testing"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

func TestText_EscapesUnprintableCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"Gateway/edge ü 網 █":        "Gateway/edge ü 網 █",
		"\x1b]0;owned\x07\x1b[2J":   `\x1b]0;owned\a\x1b[2J`,
		"\u009b2J":                  `\u009b2J`,
		"web\r\nWorkspace: root":    `web\r\nWorkspace: root`,
		"web\b\b\bapp\t\x00\x7f":    `web\b\b\bapp\t\x00\x7f`,
		"10.0.0.1\u202e8.8.8\u2028": `10.0.0.1\u202e8.8.8\u2028`,
		"not UTF-8 \xff":            `not UTF-8 \xff`,
	} {
		if got := legible.Text(text); got != want {
			t.Errorf("%q is shown as %q, not %q", text, got, want)
		}
	}
}

// Colours are used only on terminals, and only if the user does not decline them.
func TestPaintFor_IsForTerminals(t *testing.T) {
	if PaintFor(&bytes.Buffer{}, func(string) string { return "" }) {
		t.Error("what is no terminal gets colours")
	}
	if got := Paint(true).Red("no"); got != "\x1b[31mno\x1b[0m" {
		t.Errorf("red is %q", got)
	}
}
