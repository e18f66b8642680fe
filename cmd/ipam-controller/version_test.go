package main

import (
	"regexp"
	"testing"
)

// The command version and the flag --version, which other programs have, print the same.
func TestVersion_ByCommandAndFlag(t *testing.T) {
	want := regexp.MustCompile(`^ipam-controller \S+, go1\.\S+\n$`)
	for _, arg := range []string{"version", "--version"} {
		if out := mustRun(t, arg); !want.MatchString(out) {
			t.Errorf("%s prints %q; want %s", arg, out, want)
		}
	}
}
