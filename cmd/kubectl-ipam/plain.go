package main

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

// screen is stdout or stderr. All output goes through it. It escapes unprintable characters, so
// that no text of a server or of an object can control a terminal. It lets line ends and tabs
// pass, and the program's colours if paint is on. The output of a template bypasses it if a
// program reads it.
type screen struct {
	io.Writer
	paint    *paint
	terminal bool // Writer is one
}

// Write implements io.Writer. Each call must have whole characters and colours.
func (s screen) Write(text []byte) (int, error) {
	shown, rest := "", string(text)
	for at := []int{}; *s.paint && at != nil; {
		if at = colour.FindStringIndex(rest); at != nil {
			shown += legible.Escape(rest[:at[0]], "\n\t") + rest[at[0]:at[1]]
			rest = rest[at[1]:]
		}
	}
	if _, err := io.WriteString(s.Writer, shown+legible.Escape(rest, "\n\t")); err != nil {
		return 0, err
	}
	return len(text), nil
}

// recorder remembers the first error of writing, for commands that write a line at a time.
type recorder struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (r *recorder) Write(text []byte) (int, error) {
	n, err := r.Writer.Write(text)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// printData writes the output of a template: escaped to a terminal, and as it is to a program.
func printData(w io.Writer, text string) error {
	shown := legible.Escape(text, "\n\t")
	if s, ok := w.(screen); ok && !s.terminal {
		w, shown = s.Writer, text
	}
	_, err := io.WriteString(w, shown)
	return err
}

// printLine writes one line. It escapes all unprintable characters in the arguments, so that a
// value cannot begin another line. Only tinted arguments keep their colours.
func printLine(w io.Writer, format string, args ...any) {
	for i, arg := range args {
		args[i] = harmless(arg)
	}
	fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// harmless makes an argument plain if it is text.
func harmless(value any) any {
	switch value := value.(type) {
	case tinted:
		return value
	case fmt.Stringer:
		return plain(value.String())
	case error:
		return plain(value.Error())
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.String {
		return plain(v.String())
	}
	return value
}

// plain escapes all unprintable characters of a text.
func plain(text string) string { return legible.Text(text) }

// colour matches the sequences of paint, and those of client-go for "Warning:".
var colour = regexp.MustCompile(`\x1b\[(?:0|1|2|31|32|33|33;1)m`)
