// Package mutation breaks the allocator and the controllers on purpose, a line at a
// time, to show that their tests notice.
package mutation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Mutant is the code with a fragment of one file replaced.
type Mutant struct {
	// Name says what is broken.
	Name string
	// File is the file, from the root of the module.
	File string
	// Old is the fragment, which must occur exactly once in the file. New replaces it.
	Old, New string
	// Suite has the tests that must notice the mutant.
	Suite Suite
}

// Suite is a set of tests that must notice a mutant.
type Suite struct {
	Package string // default ./allocator
	Tests   string // a regular expression; empty: all
}

func (s Suite) pkg() string { return cmp.Or(s.Package, "./allocator") }

// Make writes the mutant's file into dir, and returns the overlay that makes the Go command use it. It is an error if
// the fragment does not occur exactly once: then the code has changed, and the mutant has to follow.
func (m Mutant) Make(root, dir string) (overlay string, err error) {
	path := filepath.Join(root, m.File)
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), m.Old); n != 1 {
		return "", fmt.Errorf("%q: %s holds this %d times and must hold it once: %q", m.Name, m.File, n, m.Old)
	}
	broken := filepath.Join(dir, filepath.Base(m.File))
	if err := os.WriteFile(broken, bytes.Replace(source, []byte(m.Old), []byte(m.New), 1), 0o600); err != nil {
		return "", err
	}
	config, err := json.Marshal(map[string]any{"Replace": map[string]string{path: broken}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, config, 0o600)
}

// Survives runs a suite on the mutant made in dir and reports whether it passes.
// A mutant that does not compile is an error.
func (m Mutant) Survives(ctx context.Context, root, dir string, s Suite) (alive bool, output []byte, err error) {
	overlay, err := m.Make(root, dir)
	if err != nil {
		return false, nil, err
	}
	build := exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-c", "-o", filepath.Join(dir, "suite.test"), s.pkg())
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return false, out, fmt.Errorf("%q does not compile: %w", m.Name, err)
	}
	test := exec.CommandContext(ctx, filepath.Join(dir, "suite.test"), "-test.failfast", "-test.timeout=3m", "-test.run="+s.Tests)
	test.Dir = filepath.Join(root, s.pkg())
	output, err = test.CombinedOutput()
	return err == nil, output, nil
}
