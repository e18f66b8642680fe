package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The index has every decision, by its title.
func TestDecisions_Indexed(t *testing.T) {
	t.Parallel()
	const dir = "../docs/decisions"
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "0*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		heading, _, _ := strings.Cut(string(text), "\n")
		number, title, _ := strings.Cut(strings.TrimPrefix(heading, "# "), ": ")
		row := fmt.Sprintf("| [%s](%s) | %s |\n", number, filepath.Base(file), title)
		if !strings.Contains(string(index), row) {
			t.Errorf("docs/decisions/README.md has no row\n%s", row)
		}
	}
}
