package v1alpha1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

var (
	fence    = regexp.MustCompile("(?ms)^```.*?^```$")
	span     = regexp.MustCompile("`([^`]+)`")
	reported = regexp.MustCompile(`(?m)^(?:[^ \n]+ )*([A-Z][A-Za-z]+): (.+)$`)
	verb     = regexp.MustCompile(`%[a-z]`)
	name     = regexp.MustCompile(`"[^"]*"`)
	word     = regexp.MustCompile(`\b[a-z]{2,}\b`)
	// inside are the texts that the code builds as one and pages quote by their parts.
	inside = regexp.MustCompile(`: |; |, `)
)

// quotes returns the messages that a page quotes: code of several words, and what commands print after a reason.
func quotes(t *testing.T, page string) []string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "docs", page)))(t)
	reasons := map[string]bool{}
	for _, reason := range closedReasons(t) {
		reasons[string(reason)] = true
	}
	var found []string
	for _, match := range reported.FindAllStringSubmatch(string(text), -1) {
		if reasons[match[1]] {
			found = append(found, match[2])
		}
	}
	if page != "reasons.md" {
		return found
	}
	for _, match := range span.FindAllStringSubmatch(strings.ReplaceAll(fence.ReplaceAllString(string(text), ""), "\n", " "), -1) {
		if len(strings.Fields(match[1])) > 3 && !strings.HasPrefix(match[1], "kubectl ") {
			found = append(found, match[1])
		}
	}
	return found
}

// messages returns, for each text in the code that messages are made of, what it may look like: the whole of it, what stands
// before a colon, a semicolon or a comma, and what stands between one and the next.
func messages(t *testing.T) []*regexp.Regexp {
	t.Helper()
	var found []*regexp.Regexp
	for _, text := range literals(t) {
		if strings.HasSuffix(text, " ") {
			text += "%s" // the code adds a value
		}
		for _, piece := range pieces(text) {
			if len(word.FindAllString(verb.ReplaceAllString(piece, ""), -1)) < 2 {
				continue // %s and the like say nothing
			}
			parts := verb.Split(piece, -1)
			for i := range parts {
				parts[i] = regexp.QuoteMeta(parts[i])
			}
			found = append(found, regexp.MustCompile("^"+strings.Join(parts, `(?:[^:;]|[:;]\S)+`)+"$"))
		}
	}
	return found
}

// pieces returns every part of a text that begins at its begin or after one of inside, and ends before one or at its end.
func pieces(text string) []string {
	begins, ends := []int{0}, []int{}
	for _, at := range inside.FindAllStringIndex(text, -1) {
		begins, ends = append(begins, at[1]), append(ends, at[0])
	}
	var found []string
	for _, begin := range begins {
		for _, end := range append(ends, len(text)) {
			if begin < end {
				found = append(found, text[begin:end])
			}
		}
	}
	return found
}

// literals returns all texts in the code below allocator and controllers.
func literals(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, root := range []string{"allocator", "controllers"} {
		err := filepath.WalkDir(filepath.Join("..", "..", "..", root), func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(parsed, func(node ast.Node) bool {
				if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text, _ := strconv.Unquote(literal.Value) // the parser has read it
					all = append(all, text)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A message that a page quotes is one that the code makes: each text between two colons is one of the code, as a whole.
func TestQuotes_AreMessages(t *testing.T) {
	t.Parallel()
	said := messages(t)
	for page, least := range map[string]int{"reasons.md": 8, "tenant.md": 1} {
		found := quotes(t, page)
		if len(found) < least {
			t.Errorf("docs/%s quotes %d messages; want at least %d", page, len(found), least)
		}
		for _, quote := range found {
			for part := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(quote, "…; "), ", …"), ": ") {
				made := func(m *regexp.Regexp) bool { return m.MatchString(part) }
				if len(word.FindAllString(name.ReplaceAllString(part, ""), -1)) > 1 && !slices.ContainsFunc(said, made) {
					t.Errorf("docs/%s quotes %q, and no message has %q", page, quote, part)
				}
			}
		}
	}
}
