package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// counts has the number of findings for each "file rule".
type counts map[string]int

func key(f finding) string { return f.file + " " + f.rule }

func count(findings []finding) counts {
	c := counts{}
	for _, f := range findings {
		c[key(f)]++
	}
	return c
}

// newFindings returns the findings of each file and rule that has more of them than are known.
func newFindings(findings []finding, known counts) []finding {
	now := count(findings)
	return slices.DeleteFunc(slices.Clone(findings), func(f finding) bool { return now[key(f)] <= known[key(f)] })
}

// readCounts reads counts, a line each: file, rule, number. A missing file is empty.
func readCounts(path string) (counts, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	c := counts{}
	for line := range strings.Lines(string(text)) {
		var file, rule string
		var n int
		if _, err := fmt.Sscan(line, &file, &rule, &n); err != nil {
			return nil, fmt.Errorf("%s: %q: want a file, a rule and a number", path, strings.TrimSpace(line))
		}
		c[file+" "+rule] = n
	}
	return c, nil
}

// writeCounts replaces the counts in a file. It refuses a count that rises in a file that is known, so that only a new
// rule, or a file that was moved, brings known findings.
func writeCounts(path string, before, now counts) error {
	var text bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(now)) {
		if was, ok := before[k]; ok && now[k] > was {
			return fmt.Errorf("%s: %d findings, %d were known: mend the new ones", k, now[k], was)
		}
		fmt.Fprintln(&text, k, now[k])
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}
