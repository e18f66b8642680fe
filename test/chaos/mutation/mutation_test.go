package mutation

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

var kill = flag.Bool("kill", false, "run its suite on each mutant, which takes some ten seconds for each")

// Each mutant can be made from the code as it is now.
func TestMutants_FollowTheCode(t *testing.T) {
	for _, m := range Mutants {
		if _, err := m.Make(moduleRoot(t), t.TempDir()); err != nil {
			t.Errorf("%v: follow the code with the fragment, in test/chaos/mutation", err)
		}
	}
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+)\(`)

// Each alternative of a suite's expression matches a test of the package, also after tests were renamed.
func TestMutants_NameTestsThatExist(t *testing.T) {
	for pkg, expressions := range testsByPackage() {
		var names []string
		for _, file := range must.Get(filepath.Glob(filepath.Join(moduleRoot(t), pkg, "*_test.go")))(t) {
			for _, match := range testName.FindAllSubmatch(must.Get(os.ReadFile(file))(t), -1) {
				names = append(names, string(match[1]))
			}
		}
		for _, tests := range expressions {
			for alternative := range strings.SplitSeq(tests, "|") {
				top, _, _ := strings.Cut(alternative, "/")
				if !slices.ContainsFunc(names, regexp.MustCompile(top).MatchString) {
					t.Errorf("%s has no test %q of the suite %q: follow the name, in test/chaos/mutation", pkg, top, tests)
				}
			}
		}
	}
}

// If its fragment is missing, Make returns an error that names the mutant.
func TestMake_RefusesAFragmentThatIsMissing(t *testing.T) {
	m := Mutant{Name: "lost", File: "allocator/doc.go", Old: "nobody has ever written this", New: ""}
	if _, err := m.Make(moduleRoot(t), t.TempDir()); err == nil {
		t.Error("a mutant was made of nothing")
	}
}

// No mutant survives its suite, and each suite passes without a mutant.
func TestMutants_AreKilled(t *testing.T) {
	if !*kill {
		return
	}
	root := moduleRoot(t)
	t.Run("nothing is broken", func(t *testing.T) {
		whole := Mutant{Name: "whole", File: "allocator/bind.go", Old: "package allocator", New: "package allocator"}
		for pkg, tests := range testsByPackage() {
			s := Suite{Package: pkg, Tests: strings.Join(tests, "|")}
			if alive, output, err := whole.Survives(t.Context(), root, t.TempDir(), s); err != nil || !alive {
				t.Errorf("%s fails by itself: %v\n%s", pkg, err, output)
			}
		}
	})
	for _, m := range Mutants {
		t.Run(m.Name, func(t *testing.T) {
			alive, output, err := m.Survives(t.Context(), root, t.TempDir(), m.Suite)
			switch {
			case err != nil:
				t.Fatalf("%v\n%s", err, output)
			case alive:
				t.Errorf("%s: no test of %q has noticed", m.Suite.pkg(), m.Suite.Tests)
			default:
				t.Logf("%s: %s", m.Suite.pkg(), firstFailures(output))
			}
		})
	}
}

// testsByPackage returns the tests of all suites.
func testsByPackage() map[string][]string {
	tests := map[string][]string{}
	for _, m := range Mutants {
		tests[m.Suite.pkg()] = append(tests[m.Suite.pkg()], m.Suite.Tests)
	}
	return tests
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: .*)`)

// firstFailures returns the names of the tests that failed.
func firstFailures(output []byte) string {
	var names []string
	for _, match := range failure.FindAllSubmatch(output, -1) {
		names = append(names, string(match[1])+string(match[2]))
	}
	return strings.Join(names, ", ")
}

// moduleRoot returns the directory of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	out := must.Get(exec.CommandContext(t.Context(), "go", "env", "GOMOD").Output())(t)
	return filepath.Dir(strings.TrimSpace(string(out)))
}
