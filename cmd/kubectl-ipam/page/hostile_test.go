package page_test

import (
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"
)

// Whatever texts users write, a page has only its own elements, and no text changes the direction or the line of
// another text.
func TestHostile_TextsAddNoElements(t *testing.T) {
	t.Parallel()
	paths := []string{
		"/", "/pool/office", "/pool/office?block=192.0.2.16/28", "/pool/office?block=192.0.2.32/28", "/pool/office/list", "/plan?class=x&length=28",
		"/claims", "/claims?reason=PoolExhausted", "/plan?pool=edge&workspace=root:net&length=28", "/search?q=default", "/search?q=192.0.2.16", "/search?q=batch", "/tenants", "/networks", "/claims?filter=batch", "/claim/default/held", "/pool/edge?workspace=root:net", "/nowhere",
	}
	clean := map[string]map[string]int{}
	for _, path := range paths {
		clean[path] = elements(t, get(t, pages(town("calm")), path).Body.String())
	}
	for name, text := range map[string]string{
		"markup":     `"><script>alert(1)</script><img src=x onerror=alert(1)>`,
		"attribute":  `" onmouseover="alert(1)" x='`,
		"end":        `</svg></title></script><base href="//evil.example">`,
		"scheme":     `javascript:alert(1)`,
		"template":   `{{.Snapshot}}{{template "content"}}`,
		"long":       strings.Repeat("n", 250),
		"right":      strings.Repeat("שלום ", 50),
		"direction":  "\u202eevil\u2066\u2067",
		"controls":   "\x00\x1b[2J\r\n\v\f\u0085\u2028\u200b\ufeff\U000e0001",
		"formula":    "=HYPERLINK(1)",
		"not UTF-8":  "\xff\xfe\x9b",
		"traversal":  "../../../etc/passwd?x#y",
		"reversed":   strings.Repeat("\u0301", 250),
		"everything": `%2e%2e/<!--<style>*{display:none}</style>&lt;&#60;`,
	} {
		handler := pages(town(text))
		for _, path := range paths {
			said := get(t, handler, path).Body.String()
			for element, count := range elements(t, said) {
				if count > clean[path][element] {
					t.Errorf("%s: GET %s has %d of %s, want %d", name, path, count, element, clean[path][element])
				}
			}
			if at := strings.IndexFunc(said, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); at >= 0 {
				t.Errorf("%s: GET %s has an unprintable character: %q", name, path, said[max(0, at-40):at+10])
			}
		}
		for line := range strings.SplitSeq(get(t, handler, "/pool/office/list.csv").Body.String(), "\n") {
			if strings.Contains(line, ",=") {
				t.Errorf("%s: the CSV has a formula: %s", name, line)
			}
		}
	}
}

// elements counts the elements of a page, each kind with its attributes.
func elements(t *testing.T, said string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	tokens := html.NewTokenizer(strings.NewReader(said))
	for {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			return counts
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		token := tokens.Token()
		counts["element "+token.Data]++
		for _, attribute := range token.Attr {
			counts["attribute "+attribute.Key]++
			if value := strings.ToLower(attribute.Val); attribute.Key == "href" && !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "#") {
				t.Errorf("a link leads to %q", attribute.Val)
			}
		}
	}
}
