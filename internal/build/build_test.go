package build

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Version returns the version that the linker was given, as in a release, and "unknown" if there is none.
func TestVersion_ReturnsTheVersionSetByTheLinker(t *testing.T) {
	for flags, want := range map[string]string{
		"-X github.com/kcp-ipam/ipam/internal/build.version=v9.8.7": "v9.8.7",
		"": "unknown",
	} {
		program := filepath.Join(t.TempDir(), "program")
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags="+flags, "-o", program, "./testdata/program")
		if said, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", build.Args, err, said)
		}
		said, err := exec.CommandContext(t.Context(), program).Output()
		if got := strings.TrimSpace(string(said)); err != nil || got != want {
			t.Errorf("built with %q, the version is %q, %v; want %q", flags, got, err, want)
		}
	}
}
