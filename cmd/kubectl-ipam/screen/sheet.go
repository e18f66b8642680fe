package screen

import (
	"io"
	"unicode/utf8"

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
