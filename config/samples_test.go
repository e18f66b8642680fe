package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

// The schemas admit each sample, as the server of its place has them.
func TestSamples_AreAdmitted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("samples", "*", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no samples: %v", err)
	}
	platform, tenant := platformDoors(t), tenantDoors(t)
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		doors := tenant
		if !strings.HasPrefix(filepath.Base(file), "team-") {
			doors = platform
		}
		for manifest := range strings.SplitSeq(string(text), "\n---\n") {
			sample := object(t, manifest)
			kind, _ := sample["kind"].(string)
			d, ok := doors[kind]
			if !ok {
				t.Errorf("%s has an object of kind %q, which is not served there", file, kind)
				continue
			}
			if refused := d.refusals(sample, nil); len(refused) > 0 {
				t.Errorf("%s: %s is refused: %s", file, kind, strings.Join(refused, "; "))
			}
		}
	}
}
