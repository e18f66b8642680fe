// Package legible makes the texts of objects safe to show. Users write owners, names and workspace paths, and other
// users read them.
package legible

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text escapes all unprintable characters of a text, such as \x1b, bidirectional controls, line ends and tabs.
func Text(text string) string { return Escape(text, "") }

// Escape escapes all unprintable characters of a text, except those in keep.
func Escape(text, keep string) string {
	var shown strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&shown, `\x%02x`, rest[0])
		case unicode.IsGraphic(r), strings.ContainsRune(keep, r):
			shown.WriteRune(r)
		default:
			shown.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		rest = rest[size:]
	}
	return shown.String()
}

// Cell makes a text safe for a table that a spreadsheet may open. It escapes unprintable characters. It puts an
// apostrophe before a text that would be a formula, because a formula can send the content of other cells elsewhere.
// Spreadsheets for East Asian languages also take full-width characters for the beginning of a formula.
func Cell(text string) string {
	text = Text(text)
	if first, _ := utf8.DecodeRuneInString(text); text != "" &&
		strings.ContainsRune("=+-@\uff1d\uff0b\uff0d\uff20", first) {
		return "'" + text
	}
	return text
}

// plain matches words that need no quotes in a shell.
var plain = regexp.MustCompile(`^[\w:/.,@%+=-]+`)

// Argument quotes a text, unless a shell reads it as one word without quotes.
func Argument(text string) string {
	if text = Text(text); plain.FindString(text) != text || text == "" {
		return "'" + strings.ReplaceAll(text, "'", `'"'"'`) + "'"
	}
	return text
}
