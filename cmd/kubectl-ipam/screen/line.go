// Package screen writes words for people: lines, sheets and a spinner, in colours on a terminal. No text of
// an object or a server can control the terminal, or begin a line of its own.
package screen

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

// Writer is stdout or stderr. All output goes through it. It escapes unprintable characters, so
// that no text of a server or of an object can control a terminal. It lets line ends and tabs
// pass, and the program's colours if paint is on. The output of a template bypasses it if a
// program reads it.
type Writer struct {
	io.Writer
	Paint    *Paint
	Terminal bool // Writer is one
}

// Write implements io.Writer. Each call must have whole characters and colours.
func (s Writer) Write(text []byte) (int, error) {
	shown, rest := "", string(text)
	for at := []int{}; *s.Paint && at != nil; {
		if at = Colour.FindStringIndex(rest); at != nil {
			shown += legible.Escape(rest[:at[0]], "\n\t") + rest[at[0]:at[1]]
			rest = rest[at[1]:]
		}
	}
	if _, err := io.WriteString(s.Writer, shown+legible.Escape(rest, "\n\t")); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Recorder remembers the first error of writing, for commands that write a line at a time.
type Recorder struct {
	io.Writer
	Err error
}

// Write implements io.Writer.
func (r *Recorder) Write(text []byte) (int, error) {
	n, err := r.Writer.Write(text)
	if r.Err == nil {
		r.Err = err
	}
	return n, err
}

// Data writes the output of a template: escaped to a terminal, and as it is to a program.
func Data(w io.Writer, text string) error {
	shown := legible.Escape(text, "\n\t")
	if s, ok := w.(Writer); ok && !s.Terminal {
		w, shown = s.Writer, text
	}
	_, err := io.WriteString(w, shown)
	return err
}

// Line writes one line. It escapes all unprintable characters in the arguments, so that a
// value cannot begin another line. Only tinted arguments keep their colours.
func Line(w io.Writer, format string, args ...any) {
	for i, arg := range args {
		args[i] = harmless(arg)
	}
	fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// harmless makes an argument plain if it is text.
func harmless(value any) any {
	switch value := value.(type) {
	case Tinted:
		return value
	case fmt.Stringer:
		return legible.Text(value.String())
	case error:
		return legible.Text(value.Error())
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.String {
		return legible.Text(v.String())
	}
	return value
}

// Colour matches the sequences of paint, and those of client-go for "Warning:".
var Colour = regexp.MustCompile(`\x1b\[(?:0|1|2|31|32|33|33;1)m`)
