package main

import (
	"strconv"
	"strings"
	"unicode"
)

// plain is text in which nothing can command a terminal or pass for another line.
// What people may write in objects is shown to others, who trust what they read: the
// owner of an address, names, the path of a workspace. What is no visible sign or space
// is spelled out, such as \x1b, and so is what turns the direction of writing.
func plain(text string) string {
	var shown strings.Builder
	for _, r := range text {
		if unicode.IsGraphic(r) {
			shown.WriteRune(r)
			continue
		}
		shown.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return shown.String()
}

// plainLines is plain but for the ends of lines: those are of the program or its server.
func plainLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = plain(lines[i])
	}
	return strings.Join(lines, "\n")
}
