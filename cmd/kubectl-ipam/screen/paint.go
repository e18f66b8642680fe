package screen

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

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
