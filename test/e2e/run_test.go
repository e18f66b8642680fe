package e2e

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework/local"
)

// The program behind `make run`, run again over what it has left behind, shows the same
// allocations: one of each tenant, from the pool of the samples.
func TestRun_Twice(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "run")
	if err := local.Build(t.Context(), "./test/run", program); err != nil {
		t.Fatal(err)
	}
	root, err := local.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	shown := func() []string {
		t.Helper()
		run := exec.CommandContext(t.Context(), program, "--once", "--dir", dir)
		run.Dir = root
		out, err := run.CombinedOutput()
		if err != nil {
			log, _ := os.ReadFile(filepath.Join(dir, "controller", "controller.log")) // gone with the folder otherwise
			t.Fatalf("%v\n%s\nthe controller's log:\n%s", err, out, log)
		}
		return shownClaim.FindAllString(string(out), -1)
	}

	first := shown()
	if len(first) != 2 {
		t.Fatalf("the first run shows %q; want a claim of each of two tenants", first)
	}
	var blocks []netip.Prefix
	for _, line := range first {
		blocks = append(blocks, netip.MustParsePrefix(shownClaim.FindStringSubmatch(line)[1]))
	}
	disjointIn(t, "10.64.0.0/12", blocks...)
	if second := shown(); !slices.Equal(first, second) {
		t.Errorf("the first run shows %q, the second %q", first, second)
	}
}

// shownClaim is how the program shows a bound claim of the samples.
var shownClaim = regexp.MustCompile(`root:team-[ab] +default/web +internal +internal-a +([0-9./]+)`)
