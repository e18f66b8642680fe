package main

import (
	"io"
	"unicode/utf8"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// sheet describes one thing, a line for each of its properties.
type sheet struct {
	w     io.Writer
	paint paint
}

// line writes a property that has a value. Without a name it goes on with the line above.
func (p *sheet) line(name, value string) { p.painted(name, tinted(plain(value))) }

// painted is line for a value that has its colour already.
func (p *sheet) painted(name string, value tinted) {
	const width = 14
	if value == "" {
		return
	}
	if name != "" {
		name += ":"
	}
	printLine(p.w, "%s%*s%s", p.paint.bold(name), width-utf8.RuneCountInString(name), "", value)
}

// phase colours a phase: all is well, or it is not.
func (p *sheet) phase(phase string) tinted {
	switch phase {
	case string(ipamv1alpha1.ClaimBound), string(ipamv1alpha1.PoolReady):
		return p.paint.green(phase)
	case string(ipamv1alpha1.PoolError):
		return p.paint.red(phase)
	default:
		return p.paint.yellow(phase)
	}
}
