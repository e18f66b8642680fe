package main

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"Gateway/edge ü 網 █":        "Gateway/edge ü 網 █",
		"\x1b]0;owned\x07\x1b[2J":   `\x1b]0;owned\a\x1b[2J`,
		"\u009b2J":                  `\u009b2J`,
		"web\r\nWorkspace: root":    `web\r\nWorkspace: root`,
		"web\b\b\bapp\t\x00\x7f":    `web\b\b\bapp\t\x00\x7f`,
		"10.0.0.1\u202e8.8.8\u2028": `10.0.0.1\u202e8.8.8\u2028`,
	} {
		if got := plain(text); got != want {
			t.Errorf("%q is shown as %q, not %q", text, got, want)
		}
	}
}

// Users read each text of an object on one line, and no text of an object controls their
// terminal.
func TestHostileWords(t *testing.T) {
	const hostile = "x\x1b[2J\rroot\nHolder: me\u009b1m\u202e"
	owned := &ipamv1alpha1.OwnerRef{Kind: hostile, Namespace: hostile, Name: hostile}
	record := gen.Allocation("web", "lab", "192.0.2.16/28", gen.ByClass(hostile), hourAgo)
	record.Spec.OwnerRef = owned
	claim := waiting(gen.Claim("web", gen.OfClass(hostile), hourAgo), ipamv1alpha1.ReasonClassNotFound, hostile)
	claim.Spec.OwnerRef = owned
	pool := ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24"), gen.Backs(hostile), hourAgo), "192.0.2.0/24", ipamv1alpha1.IPv4, 50, 25)
	pool.Spec.AddressDomain = hostile
	pool.Annotations = map[string]string{"kcp.io/cluster": "1abc"}
	forged := &reach{path: "root:ipam", paths: map[string]string{"1abc": hostile}}
	record.Annotations = pool.Annotations

	noError := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, show := range map[string]func(s *session){
		"address show": func(s *session) { describeAllocation(s, forged, record) },
		"claim show":   func(s *session) { describeClaim(s, claim, nil) },
		"claim list":   func(s *session) { noError((&output{format: outputWide}).print(s.Out, claim, s.now)) },
		"pool show":    func(s *session) { noError(describePool(s, pool, nil)) },
		"pool list":    func(s *session) { noError((&output{format: outputWide}).print(s.Out, pool, s.now)) },
		"pool tree":    func(s *session) { drawTree(s.Out, s.out, plant(forged, []ipamv1alpha1.IPPool{*pool})) },
		"why":          func(s *session) { noError(question{claim: claim}.explain(s)) },
		"say":          func(s *session) { s.say("%s is released", strings.ReplaceAll(hostile, "\n", "")) },
		"error":        func(s *session) { s.report(errors.New(hostile)) },
	} {
		s := newStage(t)
		show(s.session)
		shown := s.out.String() + s.errs.String()
		if strings.IndexFunc(shown, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }) >= 0 {
			t.Errorf("%s: the terminal is told %q", name, shown)
		}
		if name != "error" && strings.Contains(shown, "\nHolder: me") {
			t.Errorf("%s: a line is forged: %s", name, shown)
		}
	}
}
