package examples_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

var fence = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// The code of the page is that of these programs, which the tests run.
func TestPage(t *testing.T) {
	t.Parallel()
	sources := ""
	for _, name := range []string{"claim/main.go", "operator.go", "cluster.go"} {
		data := must.Get(os.ReadFile(name))(t)
		sources += string(data)
	}
	page := must.Get(os.ReadFile("../../docs/go-client.md"))(t)
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
