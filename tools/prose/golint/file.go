package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lintFile lints one Go file. In a test it leaves out the strings: they are data and failures, which users don't read.
func lintFile(path string, rules []rule) ([]finding, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	test := strings.HasSuffix(path, "_test.go")
	found := lintLines(path, string(text))
	add := func(pos token.Pos, fs ...finding) {
		for _, f := range fs {
			f.file, f.line = path, fset.Position(pos).Line
			found = append(found, f)
		}
	}
	for _, group := range file.Comments {
		add(group.Pos(), lintProse(oneLine(group.Text()), rules)...)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.FuncDecl:
			add(n.Pos(), lintFunction(n, test)...)
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && !test && isSentence(text) {
				add(n.Pos(), lintProse(oneLine(text), rules)...)
			}
		}
		return true
	})
	return found, nil
}

// most is how many characters a line of the product may have. A tab counts as one.
const most = 120

// lintLines finds the lines of a product file that are too long. A test, a tool, or a marker of kubebuilder, which
// cannot be broken, may have any length.
func lintLines(path, text string) []finding {
	if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "test/") || strings.HasPrefix(path, "tools/") {
		return nil
	}
	var found []finding
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > most && !strings.HasPrefix(strings.TrimSpace(line), "// +") {
			said := fmt.Sprintf("the line has %d characters: %d at most", n, most)
			found = append(found, finding{file: path, line: number, rule: "Length", text: said})
		}
	}
	return found
}

// oneLine joins the lines of a text, so that a rule finds words that a line break parts.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// isSentence tells prose from keys, paths and formats: it has three words or more.
func isSentence(text string) bool { return len(strings.Fields(text)) >= 3 }

// phrase matches the name of a test that names a case after the underscore. It should say there what the tested thing
// does.
var phrase = regexp.MustCompile(`_(?:Of|In|By|Beside|As|For|To|At|From|On|With|Than|That|What|Whose)[A-Z]`)

// banned maps words that no name may have to the words that the project uses.
var banned = map[string]string{
	"readopt": "adopt again", "relieve": "requeue", "parked": "waiting", "pledge": "quota key", "pledges": "quota keys",
	"overtaken": "conflict", "disown": "remove", "told": "the fact that was recorded", "heir": "successor", "owes": "needs",
}

// lintFunction applies the rules for names and for the comments of functions: after its name comes a verb.
func lintFunction(f *ast.FuncDecl, test bool) []finding {
	var found []finding
	if test && strings.HasPrefix(f.Name.Name, "Test") && phrase.MatchString(f.Name.Name) {
		found = append(found, finding{rule: "TestName", text: f.Name.Name + ": name a behaviour, such as TestRelease_TwiceIsHarmless"})
	}
	for _, word := range words(f.Name.Name) {
		if better, ok := banned[word]; ok {
			found = append(found, finding{rule: "Name", text: f.Name.Name + ": say '" + better + "' instead of '" + word + "'"})
		}
	}
	doc := strings.Fields(f.Doc.Text())
	if len(doc) > 1 && doc[0] == f.Name.Name && !isVerb(doc[1]) {
		found = append(found, finding{rule: "Doc", text: "'" + doc[0] + " " + doc[1] + "': continue with a verb, such as '" + doc[0] + " returns …'"})
	}
	return found
}

// isVerb reports whether a word may be a verb that says what a function does: "returns" is, "is" and "has" are not.
func isVerb(word string) bool {
	switch word {
	case "is", "has", "was", "as", "this", "its":
		return false
	case "always":
		return true
	}
	return strings.HasSuffix(word, "s") || strings.HasSuffix(word, "s,")
}

// words splits a name at its capitals: releaseIf has "release" and "if".
func words(name string) []string {
	var out []string
	begin := 0
	for i, r := range name {
		if i > begin && (unicode.IsUpper(r) || r == '_') {
			out = append(out, strings.ToLower(strings.Trim(name[begin:i], "_")))
			begin = i
		}
	}
	return append(out, strings.ToLower(strings.Trim(name[begin:], "_")))
}
