package plot

import (
	"html"
	"slices"
)

// marks draws a triangle above the plot for each mark, and a faint line down from it.
func (d *drawing) marks() {
	for _, mark := range d.Marks {
		x, paint := d.x(mark.At), d.markColour(mark.Kind)
		d.add(`<path d="M%.1f %.0fv%.0f" stroke="%s" stroke-opacity="0.25"/>`, x, top, innerDepth, paint)
		d.add(`<path d="M%.1f %.0fl-4 -8h8z" fill="%s"/>`, x, top, paint)
	}
}

// kinds are those of the marks, in order.
func (d *drawing) kinds() []string {
	kinds := make([]string, 0, len(d.Marks))
	for _, mark := range d.Marks {
		kinds = append(kinds, mark.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// markColour counts from the end of the colours, so as not to be that of a line.
func (d *drawing) markColour(kind string) string {
	return colour(len(colours) - 1 - slices.Index(d.kinds(), kind)%len(colours))
}

// legend names the lines, the marks and the bands, at the right.
func (d *drawing) legend() {
	const x, each = width - right + 14, 17.0
	y := top + 8
	entry := func(sign, name string) {
		d.add(`<g transform="translate(%.0f %.0f)">%s<text x="26" y="4">%s</text></g>`, x, y, sign, html.EscapeString(name))
		y += each
	}
	for i, line := range d.Lines {
		entry(`<path d="M0 0h20" stroke-width="2" stroke="`+colour(i)+`"`+dashes(line)+`/>`, line.Name)
	}
	y += each / 2
	for _, kind := range d.kinds() {
		entry(`<path d="M10 4l-4 -8h8z" fill="`+d.markColour(kind)+`"/>`, kind)
	}
	if len(d.Bands) > 0 {
		entry(`<rect y="-6" width="20" height="12" fill="#eef3ee" stroke="#ccd8cc"/>`, "calm")
	}
}
