package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
)

// pool is a manifest of a pool in one line.
func pool(name string, third int) string {
	return fmt.Sprintf("{apiVersion: ipam.miloapis.com/v1alpha1, kind: IPPool, metadata: {name: %s}, spec: {cidr: 10.0.%d.0/24}}", name, third)
}

// No object of a file is lost, however its documents are divided.
func TestReadYAML_Documents(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"by a line":           pool("a", 1) + "\n---\n" + pool("b", 2) + "\n",
		"with a comment":      pool("a", 1) + "\n--- # the second\n" + pool("b", 2) + "\n",
		"on the same line":    "--- " + pool("a", 1) + "\n--- " + pool("b", 2) + "\n",
		"by a tab":            pool("a", 1) + "\n---\t\n" + pool("b", 2) + "\n",
		"with an end as well": pool("a", 1) + "\n...\n---\n" + pool("b", 2) + "\n",
		"by an end alone":     pool("a", 1) + "\n...\n" + pool("b", 2) + "\n",
		"by CRLF":             pool("a", 1) + "\r\n---\r\n" + pool("b", 2) + "\r\n",
		"by nothing":          pool("a", 1) + "\n" + pool("b", 2) + "\n",
	} {
		p, wrong := plan.ReadYAML([]byte(text), plan.Options{})
		if len(wrong) > 0 {
			if name != "by nothing" {
				t.Errorf("%s: the problems are %v; want none", name, wrong)
			}
			continue
		}
		var got []string
		for _, pool := range p.Pools {
			got = append(got, pool.Name)
		}
		if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
			t.Errorf("%s: the pools are wrong (-want +got):\n%s", name, diff)
		}
	}
}

// A file in another encoding is refused: its letters would be replaced in the names of owners.
func TestRead_NotUTF8(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func() []plan.Problem{
		"a table in Latin-1": func() []plan.Problem {
			_, wrong := plan.ReadCSV([]byte("kind,cidr,owner\npool,10.0.0.0/8,\nclaim,10.0.0.7,Person/M\xfcller\n"), plan.Options{})
			return wrong
		},
		"manifests in Latin-1": func() []plan.Problem {
			_, wrong := plan.ReadYAML([]byte("# owners\n---\n# M\xfcller\n"), plan.Options{})
			return wrong
		},
	} {
		if wrong := read(); len(wrong) != 1 || wrong[0].Line != 3 || !strings.Contains(wrong[0].Message, "save the file as UTF-8") {
			t.Errorf("%s has the problems %v; want one of line 3", name, wrong)
		}
	}
}
