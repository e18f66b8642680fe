package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

// The index lists each decision by its title.
func TestDecisions_AreAllInTheIndex(t *testing.T) {
	t.Parallel()
	const dir = "../docs/decisions"
	index := must.Get(os.ReadFile(filepath.Join(dir, "README.md")))(t)
	files, err := filepath.Glob(filepath.Join(dir, "0*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		heading, _, _ := strings.Cut(string(text), "\n")
		number, title, _ := strings.Cut(strings.TrimPrefix(heading, "# "), ": ")
		row := fmt.Sprintf("| [%s](%s) | %s |\n", number, filepath.Base(file), title)
		if !strings.Contains(string(index), row) {
			t.Errorf("docs/decisions/README.md has no row\n%s", row)
		}
	}
}
