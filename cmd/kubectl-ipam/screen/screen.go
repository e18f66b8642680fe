// Package screen writes words for people: lines and sheets, in colours on a terminal. No text of
// an object or a server can control the terminal, or begin a line of its own.
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

// Sheet describes one thing, a line for each of its properties.
type Sheet struct {
	W     io.Writer
	Paint Paint
}

// Line writes a property that has a value. Without a name it goes on with the line above.
func (p *Sheet) Line(name, value string) { p.Painted(name, Tinted(legible.Text(value))) }

// Words writes a property in words about a value, if there is a value.
func (p *Sheet) Words(name, format, value string) {
	if value != "" {
		p.Line(name, fmt.Sprintf(format, value))
	}
}

// Painted is line for a value that has its colour already.
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

// Phase colours a phase: all is well, or it is not.
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

// Paint colours words, or leaves them as they are when it is false.
type Paint bool

// Tinted is text whose only unprintable characters are the program's own colours.
type Tinted string

// PaintFor colours what people see on a terminal, unless they said NO_COLOR.
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

// IsTerminal reports whether somebody sits at the other end of a stream.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
