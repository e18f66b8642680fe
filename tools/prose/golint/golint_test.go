package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const styles = "../styles"

func TestLintFile_FindsEachPattern(t *testing.T) {
	rules, err := readRules(styles, "House", "Go")
	if err != nil {
		t.Fatalf("readRules(%s): %v", styles, err)
	}
	for source, want := range map[string]string{
		"// f is of what is free.\nfunc f() {}":                           "Relative Doc",
		"// f returns users, one of whom is here.\nfunc f() {}":           "Postponed",
		"// f returns the free prefixes.\nfunc f() {}":                    "",
		"// f notifies the parked claim.\nfunc f() {}":                    "Words",
		"// f reports that there is no reason for it.\nfunc f() {}":       "",
		"// f tells that this is no refusal.\nfunc f() {}":                "Particle",
		"func relieveAll() {}":                                            "Name",
		"var err = errors.New(\"those who read it are gone\")":            "Who",
		"var question = \"what is it called?\"":                           "",
		"func f() { g(\"what is free is given\") }":                       "Relative",
		"type t struct {\n\tname string `json:\"what is it and why\"`\n}": "",
	} {
		if got := lint(t, "a.go", source, rules); got != want {
			t.Errorf("rules broken by\n%s\n= %q, want %q", source, got, want)
		}
	}
}

func TestLintFile_ReadsTestNames(t *testing.T) {
	rules, err := readRules(styles, "House", "Go")
	if err != nil {
		t.Fatalf("readRules(%s): %v", styles, err)
	}
	for source, want := range map[string]string{
		"func TestBounds_OfABlock(t *testing.T) {}":                           "TestName",
		"func TestRelease_TwiceIsHarmless(t *testing.T) {}":                   "",
		"func TestRelease(t *testing.T) { t.Log(\"what is free is given\") }": "",
	} {
		if got := lint(t, "a_test.go", source, rules); got != want {
			t.Errorf("rules broken by %s = %q, want %q", source, got, want)
		}
	}
}

func TestLintLines_CountsCharacters(t *testing.T) {
	full := "\t// " + strings.Repeat("ä", most-4)
	for _, row := range []struct {
		path, text string
		want       int
	}{
		{"a.go", full + "\n", 0},
		{"a.go", full + "ä\n", 1},
		{"a.go", "\t// +kubebuilder:" + full + "\n", 0},
		{"a_test.go", full + "ä\n", 0},
		{"test/a.go", full + "ä\n", 0},
	} {
		if got := lintLines(row.path, row.text); len(got) != row.want {
			t.Errorf("lintLines(%s, %q) = %v, want %d findings", row.path, row.text, got, row.want)
		}
	}
}

// lint returns the names of the rules that a source breaks, in order.
func lint(t *testing.T, name, source string, rules []rule) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("package p\n\n"+source+"\n"), 0o600); err != nil {
		t.Fatalf("write the source: %v", err)
	}
	findings, err := lintFile(path, rules)
	if err != nil {
		t.Fatalf("lintFile: %v", err)
	}
	var names []string
	for _, f := range findings {
		names = append(names, f.rule)
	}
	return strings.Join(names, " ")
}

func TestLintCommit(t *testing.T) {
	for message, want := range map[string]int{
		"allocator: group waiting claims into one transaction\n\nOne claim each was slow.\n": 0,
		"allocator: group waiting claims\n":                                                  1, // no body
		"Group waiting claims\n\nWhy.\n":                                                     1,
		"wildcard: the object of an event is decoded as it is read\n\nWhy.\n":                1,
		"allocator: " + strings.Repeat("group ", 20) + "\n\nWhy.\n":                          1,
	} {
		if got := lintCommit(message); len(got) != want {
			t.Errorf("lintCommit(%q) = %v, want %d findings", message, got, want)
		}
	}
}

func TestNewFindings_CountsPerFileAndRule(t *testing.T) {
	two := []finding{{file: "a.go", line: 1, rule: "Doc"}, {file: "a.go", line: 2, rule: "Doc"}}
	if got := newFindings(two, counts{"a.go Doc": 2}); len(got) != 0 {
		t.Errorf("newFindings of two, two known = %v, want none", got)
	}
	if got := newFindings(two, counts{"a.go Doc": 1}); len(got) != 2 {
		t.Errorf("newFindings of two, one known = %v, want both: a line does not say which is new", got)
	}
}

func TestWriteCounts_RefusesMore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known.txt")
	if err := writeCounts(path, counts{"a.go Doc": 1}, counts{"a.go Doc": 2}); err == nil {
		t.Error("writeCounts of a count that rose = nil, want an error")
	}
	want := counts{"a.go Doc": 1, "b.go Who": 3}
	if err := writeCounts(path, counts{"a.go Doc": 2}, want); err != nil {
		t.Fatalf("writeCounts of fewer: %v", err)
	}
	if got, err := readCounts(path); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("readCounts after writeCounts = %v, %v, want %v", got, err, want)
	}
}
