package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// A subject names the package and says what the commit does, as an order: "allocator: group waiting claims".
var (
	subject   = regexp.MustCompile(`^[a-zA-Z][\w/., {}-]*: [a-z]`)
	statement = regexp.MustCompile(`: (?:the|an?|what|no|each|every|all|more|fewer)\b|\b(?:is|are|was|were|has|have) `)
)

// lintLastCommit lints the message of HEAD. A repository without commits has nothing to lint.
func lintLastCommit() ([]finding, error) {
	out, err := exec.Command("git", "log", "-1", "--no-merges", "--format=%B").Output()
	if err != nil {
		return nil, fmt.Errorf("read the last commit's message: %w", err)
	}
	return lintCommit(string(out)), nil
}

func lintCommit(message string) []finding {
	first, body, _ := strings.Cut(strings.TrimSpace(message), "\n")
	var found []finding
	add := func(text string) { found = append(found, finding{file: "HEAD", line: 1, rule: "Commit", text: text}) }
	switch {
	case first == "":
		return nil
	case !subject.MatchString(first):
		add(fmt.Sprintf("%q: write 'package: imperative'", first))
	case statement.MatchString(first):
		add(fmt.Sprintf("%q: write an order, such as 'allocator: group waiting claims into one transaction'", first))
	}
	if n := len([]rune(first)); n > 72 {
		add(fmt.Sprintf("the subject has %d characters: 72 at most", n))
	}
	if strings.TrimSpace(body) == "" {
		add("there is no body: say why")
	}
	return found
}
