package v1alpha1

import (
	"bytes"
	"os"
	"regexp"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

// Every condition and every reason has its words on the page that people look them up on.
func TestConditions_Documented(t *testing.T) {
	t.Parallel()
	source := must.Get(os.ReadFile("conditions.go"))(t)
	page := must.Get(os.ReadFile("../../../docs/reasons.md"))(t)
	words := regexp.MustCompile(`(?m)^\t(?:Condition|Reason)\w+(?: Reason)? = "(\w+)"$`).FindAllSubmatch(source, -1)
	if len(words) < 30 {
		t.Fatalf("only %d conditions and reasons were found", len(words))
	}
	for _, word := range words {
		if !bytes.Contains(page, []byte("`"+string(word[1])+"`")) && !bytes.Contains(page, []byte("\n## "+string(word[1])+"\n")) {
			t.Errorf("docs/reasons.md does not say what %s means", word[1])
		}
	}
}
