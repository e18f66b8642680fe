package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// walked is a link to a file that names what to look for there, a method by its type.
var walked = regexp.MustCompile("\\[`(?:(\\w+)\\.)?(\\w+)`\\]\\(([\\w./]+\\.go)\\)")

func TestWalks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	links := walked.FindAllStringSubmatch(string(page), -1)
	if len(links) == 0 {
		t.Fatal("ARCHITECTURE.md has no link to a function")
	}
	for _, link := range links {
		receiver, name, file := link[1], link[2], link[3]
		source, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Errorf("%s: %v", link[0], err)
			continue
		}
		declared := `(?:func|type|var) ` + name + `\b`
		if receiver != "" {
			declared = `func \(\w+ \*?` + receiver + `\) ` + name + `\(`
		}
		if !regexp.MustCompile(`(?m)^` + declared).MatchString(string(source)) {
			t.Errorf("%s does not declare %s", file, strings.TrimPrefix(receiver+"."+name, "."))
		}
	}
}
