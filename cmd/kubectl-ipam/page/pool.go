package page

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page/draw"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// poolView is the page with the map of a pool.
type poolView struct {
	*Pool
	// Backs are the classes that the pool backs, with their lengths if the caller sees the classes.
	Backs  []backed
	Window netip.Prefix
	// Trail has links from the whole pool to the window.
	Trail  []step
	Map    draw.Figure
	Legend []legendEntry
	// Picked has the details of the block that is picked; nil: none is.
	Picked *details
	// Used leads to the part of the window that has all blocks; nil if this part is not much smaller than the window.
	Used *step
	// Outlook says when the pool will be full.
	Outlook space.Outlook
}

// Here returns the path of the whole map.
func (v poolView) Here() string { return v.Path() }

// backed is a class that a pool backs.
type backed struct{ Name, Lengths string }

// step is a link with a text.
type step struct{ Text, Link string }

func (s *server) pool(r *http.Request, snapshot *Snapshot) (view, error) {
	p, err := asked(r, snapshot)
	if err != nil {
		return view{}, err
	}
	window, err := windowOf(r, p)
	if err != nil {
		return view{}, err
	}
	data := poolView{Pool: p, Window: window, Trail: trail(p, window), Outlook: space.OutlookOf(p.Object, s.Now())}
	for _, name := range p.classes() {
		b := backed{Name: name}
		for i := range snapshot.Classes {
			if snapshot.Classes[i].Name == name {
				b.Lengths = ipamv1alpha1.LengthsColumn(snapshot.Classes[i].Spec.AllowedPrefixLengths)
			}
		}
		data.Backs = append(data.Backs, b)
	}
	if !window.IsValid() {
		return view{Template: "pool.html", Title: "Pool " + p.Title(), Data: data}, nil
	}
	m := draw.Map{Window: window, Blocks: p.blocks(), Rest: p.rest()}
	data.Used = used(p, m)
	picked, err := pickedOf(r, p)
	if err != nil {
		return view{}, err
	}
	if picked.IsValid() {
		data.Picked = snapshot.detailsOf(p, picked)
	}
	data.Map = m.Figure("Map of "+window.String()+" of pool "+p.Title(),
		"Addresses run from left to right and from top to bottom. The list of the pool says the same in rows.",
		linker(p, window, picked))
	data.Legend = legendOf(data.Map)
	return view{Template: "pool.html", Title: "Pool " + p.Title(), Data: data}, nil
}

// asked returns the pool that a request names.
func asked(r *http.Request, snapshot *Snapshot) (*Pool, error) {
	name, workspace := r.PathValue("name"), r.URL.Query().Get("workspace")
	p, ok := snapshot.pool(snapshot.own(workspace), name)
	if !ok {
		return nil, &problem{http.StatusNotFound, "There is no pool " + space.In(name, workspace) + " that you may see."}
	}
	return p.choose(r.URL.Query().Get("space"))
}

// windowOf returns the part of a pool that a request names, or else the whole pool.
func windowOf(r *http.Request, p *Pool) (netip.Prefix, error) {
	text := r.PathValue("window")
	if text == "" {
		return p.Window(), nil
	}
	window, err := netip.ParsePrefix(text)
	whole := p.Window()
	if err != nil || !whole.Contains(window.Addr()) || window.Bits() < whole.Bits() {
		return netip.Prefix{}, &problem{
			http.StatusNotFound, fmt.Sprintf("%q is no part of pool %s, which is %s.", text, p.Title(), whole),
		}
	}
	return window.Masked(), nil
}

// pickedOf returns the block whose details a request asks for; the zero Prefix if it asks for none.
func pickedOf(r *http.Request, p *Pool) (netip.Prefix, error) {
	text := r.URL.Query().Get("block")
	if text == "" {
		return netip.Prefix{}, nil
	}
	picked, err := netip.ParsePrefix(text)
	if err != nil || !p.Window().Overlaps(picked) {
		return netip.Prefix{}, &problem{http.StatusNotFound, fmt.Sprintf("%q is no block of pool %s.", text, p.Title())}
	}
	return picked.Masked(), nil
}

// trail returns links from the whole pool towards a window, one for every fourth prefix length.
func trail(p *Pool, window netip.Prefix) []step {
	var steps []step
	whole := p.Window()
	const stride = 4
	for bits := whole.Bits(); bits < window.Bits(); bits += stride {
		at := netip.PrefixFrom(window.Addr(), bits).Masked()
		steps = append(steps, step{at.String(), p.Path(p.zoom(at)...)})
	}
	return steps
}

// used returns a step to the part of a map that has all of its blocks; nil unless this part is at most a sixteenth of
// the map.
func used(p *Pool, m draw.Map) *step {
	const much = 4
	var around netip.Prefix
	for _, b := range m.Blocks {
		if !m.Window.Contains(b.Prefix.Addr()) || b.Prefix.Bits() < m.Window.Bits() || b.Kind == draw.Kept {
			continue
		}
		if !around.IsValid() {
			around = widened(b.Prefix, 2)
		}
		for !around.Contains(b.Prefix.Addr()) || b.Prefix.Bits() < around.Bits() {
			around = widened(around, 1)
		}
	}
	if !around.IsValid() || around.Bits() < m.Window.Bits()+much {
		return nil
	}
	return &step{around.String(), p.Path(p.zoom(around)...)}
}

// linker returns a function that names the boxes of a map, and links them: a mixed box leads to a map of it, any other
// box to its details.
func linker(p *Pool, window, picked netip.Prefix) func(draw.Box) draw.Shape {
	return func(box draw.Box) draw.Shape {
		shape := draw.Shape{Name: named(box), Picked: box.Prefix == picked}
		if box.Kind == draw.Mixed {
			shape.Link = p.Path(p.zoom(box.Prefix)...)
		} else {
			shape.Link = p.At(window, box.Prefix)
		}
		return shape
	}
}

// named says what a box is, to screen readers and under the pointer.
func named(b draw.Box) string {
	said := []string{b.Prefix.String(), sized(b.Prefix)}
	switch b.Kind {
	case draw.Mixed:
		said = append(said, fmt.Sprintf("%s used by %d blocks: zoom in", b.Percent(), b.Blocks))
	default:
		said = append(said, words[b.Kind])
	}
	if b.Label != "" {
		said = append(said, legible.Text(b.Label))
	}
	return strings.Join(said, ", ")
}

// words has the word for each kind of block.
var words = map[draw.Kind]string{
	draw.Free: "free", draw.Unseen: "free, or held by others",
	draw.Own: "held here", draw.Foreign: "held by another workspace",
	draw.Child: "child pool", draw.Retained: "retained", draw.Kept: "reserved or excluded",
	draw.Planned: "the plan", draw.Mixed: "several blocks", draw.Cooling: "free, or cooling",
}

// legendEntry is a kind of block in the legend of a map.
type legendEntry struct{ Fill, Words string }

// legendOf returns the legend of a map: the kinds that the map has, in a fixed order.
func legendOf(f draw.Figure) []legendEntry {
	var entries []legendEntry
	for _, kind := range []draw.Kind{
		draw.Planned, draw.Own, draw.Foreign, draw.Child, draw.Retained,
		draw.Kept, draw.Mixed, draw.Free, draw.Cooling, draw.Unseen,
	} {
		at := slices.IndexFunc(f.Shapes, func(s draw.Shape) bool { return s.Kind == kind })
		if at >= 0 {
			entries = append(entries, legendEntry{f.Shapes[at].Fill(), words[kind]})
		}
	}
	return entries
}

// Lengths returns in words the lengths that a pool gives; empty if this is not known.
func (v poolView) Lengths() string {
	if v.Object == nil {
		return ""
	}
	if bounds := v.Object.Spec.Allocation; bounds.MinPrefixLength == 0 && bounds.MaxPrefixLength == 0 {
		return "any"
	}
	least, most := space.Lengths(v.Pool.Window(), v.Object.Spec)
	return ipamv1alpha1.LengthsColumn(&ipamv1alpha1.PrefixLengthRange{Min: least, Max: most})
}
