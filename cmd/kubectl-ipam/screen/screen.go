// Package screen prints text for people: lines and sheets, with colours on a terminal. No text from an object or a
// server can control the terminal, or begin a line.
package screen

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

// Writer is stdout or stderr. All output goes through it, except templates for a program. It escapes unprintable
// characters, so that no text from a server or an object can control a terminal. It lets line ends and tabs pass, and
// colours if paint is on.
type Writer struct {
	io.Writer
	Paint    *Paint
	Terminal bool // the Writer is a terminal
}

// Write implements io.Writer. A call must not end inside a character or a colour sequence.
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

// Recorder remembers the first error of its Writer, for commands that print line by line.
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

// Data prints the output of a template: escaped on a terminal, and unchanged for a program.
func Data(w io.Writer, text string) error {
	shown := legible.Escape(text, "\n\t")
	if s, ok := w.(Writer); ok && !s.Terminal {
		w, shown = s.Writer, text
	}
	_, err := io.WriteString(w, shown)
	return err
}

// Line prints one line. It escapes all unprintable characters in the arguments, so that no argument can begin another
// line. Only arguments of type Tinted keep their colours.
func Line(w io.Writer, format string, args ...any) {
	for i, arg := range args {
		args[i] = harmless(arg)
	}
	fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// harmless escapes an argument if it is a text.
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

// Colour matches the colour sequences of Paint, and that of client-go for "Warning:".
var Colour = regexp.MustCompile(`\x1b\[(?:0|1|2|31|32|33|33;1)m`)

// Sheet prints a description of one thing, with a line for each property.
type Sheet struct {
	W     io.Writer
	Paint Paint
}

// Line prints a property, unless its value is empty. Without a name, the line continues the one above.
func (p *Sheet) Line(name, value string) { p.Painted(name, Tinted(legible.Text(value))) }

// Words prints a property as a sentence with a value, unless the value is empty.
func (p *Sheet) Words(name, format, value string) {
	if value != "" {
		p.Line(name, fmt.Sprintf(format, value))
	}
}

// Painted prints a property like Line, with a value that has colours already.
func (p *Sheet) Painted(name string, value Tinted) {
	const width = 14
	if value == "" {
		return
	}
	if name != "" {
		name += ":"
	}
	Line(p.W, "%s%*s%s", p.Paint.Bold(name), width-utf8.RuneCountInString(name), "", value)
}

// Phase colours a phase by whether all is well.
func (p *Sheet) Phase(phase string) Tinted {
	switch phase {
	case string(ipamv1alpha1.ClaimBound), string(ipamv1alpha1.PoolReady):
		return p.Paint.Green(phase)
	case string(ipamv1alpha1.PoolError):
		return p.Paint.Red(phase)
	default:
		return p.Paint.Yellow(phase)
	}
}

// Paint colours words if it is true, and otherwise leaves them as they are.
type Paint bool

// Tinted is a text that has no unprintable characters except the program's own colours.
type Tinted string

// PaintFor returns whether to use colours: only on a terminal, and only if NO_COLOR is not set.
func PaintFor(w io.Writer, env func(string) string) Paint {
	return Paint(IsTerminal(w) && env("NO_COLOR") == "" && env("TERM") != "dumb")
}

func (p Paint) with(code, words string) Tinted {
	if !p || words == "" {
		return Tinted(legible.Text(words))
	}
	return Tinted("\x1b[" + code + "m" + legible.Text(words) + "\x1b[0m")
}

// Bold makes words bold.
func (p Paint) Bold(words string) Tinted { return p.with("1", words) }

// Dim makes words dim.
func (p Paint) Dim(words string) Tinted { return p.with("2", words) }

// Red makes words red.
func (p Paint) Red(words string) Tinted { return p.with("31", words) }

// Green makes words green.
func (p Paint) Green(words string) Tinted { return p.with("32", words) }

// Yellow makes words yellow.
func (p Paint) Yellow(words string) Tinted { return p.with("33", words) }

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
