package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

// walked is a link to a file that names a declaration in it, a method by its type.
var walked = regexp.MustCompile("\\[`(?:(\\w+)\\.)?(\\w+)`\\]\\(([\\w./]+\\.go)\\)")

// step is a function of a walk, or another declaration.
type step struct{ receiver, name, file string }

func (s step) String() string { return strings.TrimPrefix(s.receiver+"."+s.name, ".") }

func TestWalks(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../ARCHITECTURE.md"))(t)
	_, ways, _ := strings.Cut(string(page), "\n## Five ways through the code\n")
	ways, _, _ = strings.Cut(ways, "\n## ")
	followed := 0
	for way := range strings.SplitSeq(ways, "\n**") {
		follows := strings.Contains(way, ") →")
		if follows {
			followed++
		}
		for _, problem := range walk(way, follows) {
			t.Error(problem)
		}
	}
	if followed != 3 {
		t.Errorf("ARCHITECTURE.md has %d walks with arrows, want 3", followed)
	}
}

// walk goes through the links of a walk, and returns those that are not declared. With follows, it also returns the
// steps that the step before does not call.
func walk(text string, follows bool) (problems []string) {
	var before step
	named, end := map[step]bool{}, 0
	for _, at := range walked.FindAllStringSubmatchIndex(text, -1) {
		group := func(i int) string {
			if at[2*i] < 0 {
				return ""
			}
			return text[at[2*i]:at[2*i+1]]
		}
		now, between := step{group(1), group(2), group(3)}, text[end:at[0]]
		end = at[1]
		switch {
		case !now.declared():
			problems = append(problems, now.file+" does not declare "+now.String())
		case !follows, before == step{}, named[now], strings.Contains(between, "⇢"):
		case !strings.Contains(between, "→"):
			problems = append(problems, now.String()+" has no arrow, and was not named before")
		}
		if follows && strings.Contains(between, "→") && !before.mentions(now.name) {
			problems = append(problems, before.String()+" does not call "+now.String())
		}
		named[now], before = true, now
	}
	return problems
}

// declared reports whether the step's file declares the step.
func (s step) declared() bool {
	source, err := os.ReadFile(filepath.Join("..", s.file))
	pattern := `(?:func|type|var) ` + s.name + `\b`
	if s.receiver != "" {
		pattern = `func \(\w+ \*?` + s.receiver + `\) ` + s.name + `\(`
	}
	return err == nil && regexp.MustCompile(`(?m)^`+pattern).Match(source)
}

// mentions reports whether the body of the step's function has a name: of a function that it calls, or passes on.
func (s step) mentions(name string) bool {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", s.file), nil, parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	found := false
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Name.Name != s.name || receiverOf(f) != s.receiver {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			found = found || ok && id.Name == name
			return !found
		})
	}
	return found
}

func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// The check of the walks notices a step that the step before does not call.
func TestWalk_NoticesABrokenStep(t *testing.T) {
	t.Parallel()
	const (
		answer = "[`server.answer`](controllers/door/answer.go)"
		ask    = "[`server.ask`](controllers/door/answer.go)"
		own    = "[`server.decider`](controllers/door/server.go)"
	)
	for text, want := range map[string]int{
		answer + " → " + ask + " → " + own:            0,
		answer + " ⇢ " + own:                          0,
		answer + " → " + ask + ". " + answer:          0,
		answer + " → " + own:                          1, // it calls ask
		answer + ", " + own:                           1,
		answer + " → [`gone`](controllers/none.go)":   2,
		answer + " → [`server.ask`](test/gen/gen.go)": 1,
	} {
		if got := walk(text, true); len(got) != want {
			t.Errorf("%s: %q, want %d problems", text, got, want)
		}
	}
}
