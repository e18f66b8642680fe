package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// paint colours words, or leaves them as they are when it is false.
type paint bool

// tinted is text whose only unprintable characters are the program's own colours.
type tinted string

// paintFor colours what people see on a terminal, unless they said NO_COLOR.
func paintFor(w io.Writer, env func(string) string) paint {
	return paint(isTerminal(w) && env("NO_COLOR") == "" && env("TERM") != "dumb")
}

func (p paint) with(code, words string) tinted {
	if !p || words == "" {
		return tinted(plain(words))
	}
	return tinted("\x1b[" + code + "m" + plain(words) + "\x1b[0m")
}

func (p paint) bold(words string) tinted   { return p.with("1", words) }
func (p paint) dim(words string) tinted    { return p.with("2", words) }
func (p paint) red(words string) tinted    { return p.with("31", words) }
func (p paint) green(words string) tinted  { return p.with("32", words) }
func (p paint) yellow(words string) tinted { return p.with("33", words) }

// isTerminal reports whether somebody sits at the other end of a stream.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
