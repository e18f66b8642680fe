package screen

import (
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/term"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

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
