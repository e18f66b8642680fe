package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dlclark/regexp2/v2"
	"gopkg.in/yaml.v3"
)

// A rule finds words in prose. It is one file of the styles that vale reads.
type rule struct {
	name    string
	pattern *regexp2.Regexp
	advice  func(match string) string
}

// A style is the part of a rule's file that both programs heed.
type style struct {
	Extends string            `yaml:"extends"`
	Message string            `yaml:"message"`
	Tokens  []string          `yaml:"tokens"`
	Swap    map[string]string `yaml:"swap"`
}

// readRules reads the rules in some folders of dir. It refuses a rule of a kind that it does not know.
func readRules(dir string, folders ...string) ([]rule, error) {
	var files []string
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(dir, folder, "*.yml"))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("no rules in %s/%s: run this at the top of the repository", dir, folder)
		}
		files = append(files, found...)
	}
	var rules []rule
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var s style
		if err := yaml.Unmarshal(text, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yml")
		switch s.Extends {
		case "existence":
			rules = append(rules, rule{
				name:    name,
				pattern: compile(strings.Join(s.Tokens, "|")),
				advice:  func(match string) string { return strings.Replace(s.Message, "%s", strings.TrimSpace(match), 1) },
			})
		case "substitution":
			for from, to := range s.Swap {
				rules = append(rules, rule{
					name:    name,
					pattern: compile(`\b(?:` + from + `)\b`),
					advice:  func(match string) string { return fmt.Sprintf("write '%s' instead of '%s'", to, match) },
				})
			}
		default:
			return nil, fmt.Errorf("%s: extends %q: write existence or substitution", file, s.Extends)
		}
	}
	return rules, nil
}

func compile(pattern string) *regexp2.Regexp { return regexp2.MustCompile(pattern, regexp2.IgnoreCase) }

// lintProse applies every rule to a paragraph, whose lines are joined by then.
func lintProse(text string, rules []rule) []finding {
	var found []finding
	for _, r := range rules {
		for m, _ := r.pattern.FindStringMatch(text); m != nil; m, _ = r.pattern.FindNextMatch(m) {
			found = append(found, finding{rule: r.name, text: r.advice(m.String())})
		}
	}
	return found
}
