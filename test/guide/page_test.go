package guide

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

// block is a fenced block of commands.
type block struct {
	line       int // of the page, where it begins
	commands   string
	background bool
	// prints is the first line of the output that the page shows; empty if it shows none.
	prints string
}

var fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

// blocksOf returns the commands of a page; with a heading, of that chapter.
func blocksOf(t *testing.T, page, heading string) []block {
	t.Helper()
	data := must.Get(os.ReadFile(page))(t)
	text, from, to := string(data), 0, len(data)
	if heading != "" {
		from = strings.Index(text, "\n## "+heading+"\n") + 1
		if from == 0 {
			t.Fatalf("%s has no chapter %q", page, heading)
		}
		if next := strings.Index(text[from:], "\n## "); next >= 0 {
			to = from + next
		}
	}
	var blocks []block
	for _, at := range fence.FindAllStringSubmatchIndex(text[from:to], -1) {
		language, inside := text[from+at[2]:from+at[3]], text[from+at[4]:from+at[5]]
		switch language {
		case "sh", "sh background":
			line := 2 + strings.Count(text[:from+at[0]], "\n")
			blocks = append(blocks, block{line: line, commands: inside, background: language != "sh"})
		case "":
			if len(blocks) == 0 {
				t.Fatalf("%s shows output before any command", page)
			}
			blocks[len(blocks)-1].prints, _, _ = strings.Cut(inside, "\n")
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("%s %s has no commands", page, heading)
	}
	return blocks
}

// isLine reports whether a line is what a page shows, whatever the width of columns.
func (b block) isLine(line string) bool {
	return strings.Join(strings.Fields(line), " ") == strings.Join(strings.Fields(b.prints), " ")
}
