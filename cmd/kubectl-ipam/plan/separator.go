package plan

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// separators are the characters that programs write between the cells of a table.
const separators = ",;\t|"

// ParseSeparator reads what stands between the cells of a table: one character, or the word tab.
// The error says what to write instead.
func ParseSeparator(text string) (rune, error) {
	if strings.EqualFold(text, "tab") || text == `\t` {
		return '\t', nil
	}
	r, size := utf8.DecodeRuneInString(text)
	if size == 0 || size != len(text) || r == utf8.RuneError || strings.ContainsRune("\"#\r\n\ufeff", r) {
		return 0, fmt.Errorf("%q separates no cells: write one character, such as ; or tab", text)
	}
	return r, nil
}

// separatorLine cuts the line sep=; off, by which a table tells a spreadsheet its separator. The
// line stays, as an empty one, so that the lines after it keep their numbers.
func separatorLine(data []byte) (rest []byte, separator rune) {
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	text := strings.ToLower(strings.Trim(string(line), "\" "))
	text, ok := strings.CutPrefix(text, "sep=")
	r, size := utf8.DecodeRuneInString(text)
	if !ok || size == 0 || strings.Trim(text[size:], string(r)) != "" {
		return data, 0
	}
	return slices.Concat([]byte("\n"), rest), r
}

// separatorOf finds what separates the columns: the one of the separators that the first row has
// most of, outside of quotes. It fails if two are there equally often.
func separatorOf(data []byte) (rune, error) {
	count := map[rune]int{}
	quoted := false
	for _, r := range string(firstRow(data)) {
		switch {
		case r == '"':
			quoted = !quoted
		case !quoted && r == '\n':
			return most(count)
		case !quoted && strings.ContainsRune(separators, r):
			count[r]++
		}
	}
	return most(count)
}

func most(count map[rune]int) (rune, error) {
	best, other := ',', rune(0)
	for _, r := range separators[1:] {
		switch {
		case count[r] > count[best]:
			best, other = r, 0
		case count[r] == count[best] && count[r] > 0:
			other = r
		}
	}
	if other != 0 {
		return 0, fmt.Errorf("%s and %s may separate the columns: say by --separator which one does", separatorName(best), separatorName(other))
	}
	return best, nil
}

// firstRow is a table from its first row on, without empty lines and comments.
func firstRow(data []byte) []byte {
	for line := range bytes.Lines(data) {
		if line[0] != '#' && line[0] != '\n' {
			break
		}
		data = data[len(line):]
	}
	return data
}

// separatorName is a separator as --separator takes it.
func separatorName(r rune) string {
	if r == '\t' {
		return "tab"
	}
	return string(r)
}
