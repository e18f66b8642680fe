package main

import (
	"bytes"
	"regexp"
	"testing"
)

// The command and the flag, which other programs have, say the same.
func TestVersion_ByCommandAndFlag(t *testing.T) {
	want := regexp.MustCompile(`^ipam-controller \S+, go1\.\S+\n$`)
	for _, arg := range []string{"version", "--version"} {
		cmd, out := newCommand(), &bytes.Buffer{}
		cmd.SetArgs([]string{arg})
		cmd.SetOut(out)
		if err := cmd.Execute(); err != nil {
			t.Fatalf("%s: %v", arg, err)
		}
		if !want.MatchString(out.String()) {
			t.Errorf("%s prints %q; want %s", arg, out, want)
		}
	}
}
