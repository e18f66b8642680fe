package draw

import (
	_ "embed"
	"fmt"
	"html/template"
	"math/big"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// Figure is a picture of a map.
type Figure struct {
	// Title and Description are read by screen readers.
	Title, Description string
	// Plain is set for a figure without words and links, which shows the space at a glance.
	Plain  bool
	Shapes []Shape
}

// Shape is a box in a figure, with the text in it.
type Shape struct {
	Box
	// Link is where the box leads. Name says what it is, to screen readers and under the pointer.
	Link, Name string
	// Picked is set for the box whose details are shown.
	Picked bool
	Lines  []Line
}

// Line is a line of text in a figure.
type Line struct {
	X, Y float64
	Text string
	// Head is set for the first line of a box, and Large for a line that can be read on a phone, too.
	Head, Large bool
}

// Figure draws a map. link returns the name and the link of a box; without link the figure is plain.
func (m Map) Figure(title, description string, link func(Box) Shape) Figure {
	f := Figure{Title: title, Description: description, Plain: link == nil}
	var picked []Shape
	for _, box := range m.Boxes() {
		var shape Shape
		if !f.Plain {
			shape = link(box)
			shape.Lines = lines(box)
		}
		if shape.Box = box; shape.Picked {
			picked = append(picked, shape)
			continue
		}
		f.Shapes = append(f.Shapes, shape)
	}
	f.Shapes = append(f.Shapes, picked...) // the last shapes are drawn on top, so that their borders are whole
	return f
}

//go:embed figure.svg
var source string

var figure = template.Must(template.New("figure").Parse(source))

// SVG writes the figure as SVG. It escapes texts, and unprintable characters in them. The page that contains the figure
// has to define the patterns of the fills. Their names are fill- and the kind.
func (f Figure) SVG() (template.HTML, error) {
	var out strings.Builder
	err := figure.Execute(&out, f)
	return template.HTML(out.String()), err //nolint:gosec // the output of html/template
}

// Fill returns the name of the pattern that fills a shape. A Mixed shape has one of five patterns, the darker the
// fuller it is.
func (s Shape) Fill() string {
	if s.Kind != Mixed {
		return "fill-" + s.Kind.String()
	}
	const steps = 5
	return fmt.Sprintf("fill-mixed-%d", min(int(s.Share*steps), steps-1))
}

// Percent returns how much of a Mixed box is not free.
func (b Box) Percent() string {
	switch percent := b.Share * 100; {
	case percent < 1:
		return "<1%"
	case percent > 99 && percent < 100:
		return ">99%"
	default:
		return fmt.Sprintf("%.0f%%", percent)
	}
}

// These are the sizes of text.
const (
	charWidth  = 7.6
	lineHeight = 17
	margin     = 8
	largeWidth = 250
)

// lines returns the texts that fit into a box: its prefix, or else its length, and what holds it.
func lines(b Box) []Line {
	room := int((b.W - margin) / charWidth)
	if b.H < lineHeight+2 || room < 3 {
		return nil
	}
	head := b.Prefix.String()
	if utf8.RuneCountInString(head) > room {
		head = fmt.Sprintf("/%d", b.Prefix.Bits())
	}
	texts := []string{head}
	for _, text := range notes(b, room) {
		if b.H >= float64(len(texts)+1)*lineHeight+4 && room >= 5 {
			texts = append(texts, clip(text, room))
		}
	}
	if utf8.RuneCountInString(head) > room {
		return nil
	}
	out := make([]Line, len(texts))
	top := b.Y + (b.H-float64(len(texts))*lineHeight)/2 + lineHeight*0.74
	for i, text := range texts {
		head := i == 0
		y := top + float64(i)*lineHeight
		out[i] = Line{X: b.X + b.W/2, Y: y, Text: text, Head: head, Large: head && b.W >= largeWidth}
	}
	return out
}

// notes returns what is written below the prefix of a box.
func notes(b Box, room int) []string {
	said := map[Kind]string{Unseen: "not shown", Cooling: "free or cooling", Mixed: b.Percent(), Kept: "kept back"}[b.Kind]
	if b.Kind == Free {
		size := plural.Of(Size(b.Prefix), "address", "addresses")
		if len(size) > room {
			size = Size(b.Prefix)
		}
		return []string{"free", size}
	}
	if said == "" {
		said = legible.Text(b.Label)
		if b.Short != "" && utf8.RuneCountInString(said) > room {
			said = b.Short
		}
	}
	return []string{said}
}

// clip cuts a text to this number of characters.
func clip(text string, room int) string {
	text = legible.Text(text)
	if utf8.RuneCountInString(text) <= room {
		return text
	}
	return string([]rune(text)[:room-1]) + "…"
}

// Count writes a number of addresses for people. Up to nine digits it is exact, with separators. Beyond that it is a
// power of two, if the number is one, or else rounded, such as 2.71×10²⁶.
func Count(n *big.Int) string {
	const separated = 9
	if digits := n.String(); len(digits) <= separated {
		return humanize.BigComma(n)
	}
	if bits := n.BitLen() - 1; n.TrailingZeroBits() == uint(bits) {
		return "2" + raised(fmt.Sprint(bits))
	}
	rounded, _ := new(big.Float).SetInt(n).Float64()
	mantissa, exponent, _ := strings.Cut(fmt.Sprintf("%.2e", rounded), "e+")
	return mantissa + "×10" + raised(strings.TrimPrefix(exponent, "0"))
}

// raised writes digits as an exponent.
func raised(digits string) string {
	return strings.NewReplacer("0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴",
		"5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹").Replace(digits)
}

// Size writes the number of addresses of a prefix.
func Size(p netip.Prefix) string {
	return Count(new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits())))
}
