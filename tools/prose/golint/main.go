// Command golint applies the project's rules for prose to Go files: to comments, to the strings that users read, to the
// names of functions and tests, and to the message of the last commit. Vale does the same for pages and help, with the
// same rules of tools/prose/styles. It also keeps the lines of the product short.
//
// Findings that were there before a rule are counted per file in known.txt. A file with more findings of a rule than that
// fails; -update writes the counts again, and refuses to raise one.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// A finding is one offence against a rule.
type finding struct {
	file string
	line int
	rule string
	text string // the words that offend, and what to write instead
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s: %s", f.file, f.line, f.rule, f.text) }

func main() {
	var (
		styles = flag.String("styles", "tools/prose/styles", "the folder of the rules: House, which vale reads, too, and Go")
		known  = flag.String("known", "tools/prose/known.txt", "the counts of findings that were there before a rule")
		update = flag.Bool("update", false, "write the counts again; none may rise")
		all    = flag.Bool("all", false, "print the known findings, too")
		commit = flag.Bool("commit", true, "read the message of the last commit")
	)
	flag.Parse()
	if err := run(*styles, *known, *update, *all, *commit); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run lints the Go files that git knows below the current folder.
func run(styles, known string, update, all, commit bool) error {
	findings, err := lintFiles(styles)
	if err != nil {
		return err
	}
	before, err := readCounts(known)
	if err != nil {
		return err
	}
	if update {
		return writeCounts(known, before, count(findings))
	}

	fresh := newFindings(findings, before)
	if all {
		fresh = findings
	}
	if commit {
		found, err := lintLastCommit()
		if err != nil {
			return err
		}
		fresh = append(fresh, found...)
	}
	for _, f := range fresh {
		fmt.Println(f)
	}
	if len(fresh) > 0 {
		return fmt.Errorf("%d findings: CONTRIBUTING.md, chapter 5, says how the project writes", len(fresh))
	}
	return nil
}

// lintFiles applies the rules to the Go files that people write.
func lintFiles(styles string) ([]finding, error) {
	rules, err := readRules(styles, "House", "Go")
	if err != nil {
		return nil, err
	}
	files, err := goFiles()
	if err != nil {
		return nil, err
	}
	var findings []finding
	for _, file := range files {
		found, err := lintFile(file, rules)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		findings = append(findings, found...)
	}
	return findings, nil
}

// goFiles returns the Go files that people write, in order.
func goFiles() ([]string, error) {
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go").Output()
	if err != nil {
		return nil, fmt.Errorf("list the Go files by git: %w", err)
	}
	var files []string
	for _, file := range strings.Fields(string(out)) {
		written := !strings.HasPrefix(file, "third_party/") && !strings.Contains(file, "/testdata/") &&
			!strings.HasPrefix(filepath.Base(file), "zz_generated")
		if _, err := os.Stat(file); err == nil && written {
			files = append(files, file)
		}
	}
	sort.Strings(files)
	return files, nil
}
