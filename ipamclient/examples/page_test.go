package examples_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var fence = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// The code of the page is that of these programs, which the tests run.
func TestPage(t *testing.T) {
	t.Parallel()
	sources := ""
	for _, name := range []string{"claim/main.go", "operator.go", "cluster.go"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		sources += string(data)
	}
	page, err := os.ReadFile("../../docs/go-client.md")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	blocks := fence.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 4 {
		t.Fatalf("docs/go-client.md has %d blocks of code; want at least 4", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(sources, block[1]) {
			t.Errorf("docs/go-client.md shows code that no example has:\n%s", block[1])
		}
	}
}
