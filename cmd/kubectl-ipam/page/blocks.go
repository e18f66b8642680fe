package page

import (
	"encoding/csv"
	"fmt"
	"math/big"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page/draw"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// listView is a pool as a list of blocks.
type listView struct {
	*Pool
	paged[listRow]
	// Lengths has the number of free blocks of each length. It is empty if the free blocks are not known.
	Lengths []fit
	// CSV is the link to all rows as data.
	CSV string
}

// Here returns the path of the list.
func (v listView) Here() string { return v.Path("list") }

// listRow is a block of a pool, or of a pool below it.
type listRow struct {
	// Holding has the block. If nobody holds the block, its other fields are empty. For a child pool, Scope is the scope
	// of that pool.
	space.Holding
	Depth int
	Kind  draw.Kind
	// Link leads to the block on a map.
	Link string
	// Meter is how full a child pool is.
	Meter meter
}

// Size returns the number of addresses.
func (r listRow) Size() string { return draw.Size(r.Block) }

// Is returns the word for the kind of the block.
func (r listRow) Is() string { return words[r.Kind] }

// Indent returns the CSS class that indents a row inside a child pool.
func (r listRow) Indent() string { return "depth-" + strconv.Itoa(min(r.Depth, 4)) }

func (s *server) list(r *http.Request, snapshot *Snapshot) (view, error) {
	p, err := asked(r, snapshot)
	if err != nil {
		return view{}, err
	}
	data := listView{Pool: p, CSV: p.Path("list.csv")}
	data.paged = paging(r, rows(snapshot, p, 0))
	if p.rest() == draw.Free {
		data.Lengths = lengths(snapshot, p)
	}
	return view{Template: "list.html", Title: "Pool " + p.Title(), Data: data}, nil
}

// rows returns the blocks of a pool, held and free, by address. After each child pool come the blocks of that pool.
func rows(snapshot *Snapshot, p *Pool, depth int) []listRow {
	window := p.Window()
	if !window.IsValid() {
		return nil
	}
	all := make([]listRow, 0, len(p.Held))
	for _, h := range p.Held {
		all = append(all, listRow{Holding: h, Depth: depth, Kind: kindOf(h), Link: p.At(window, h.Block)})
	}
	unheld := func(kind draw.Kind, blocks []netip.Prefix) {
		for _, block := range blocks {
			all = append(all, listRow{Holding: space.Holding{Block: block}, Depth: depth, Kind: kind, Link: p.At(window, block)})
		}
	}
	known := p.Space()
	unheld(draw.Kept, known.Kept)
	if p.Object != nil { // otherwise it is not known where the pool ends
		unheld(p.rest(), known.Free())
	}
	slices.SortStableFunc(all, func(a, b listRow) int { return a.Block.Compare(b.Block) })
	const deepest = 8 // a chain of parents cannot be longer than an address, nor a circle
	out := make([]listRow, 0, len(all))
	for _, row := range all {
		child, seen := snapshot.pool(row.Workspace, row.Name)
		if row.Kind != draw.Child || !seen || child == p || depth == deepest {
			out = append(out, row)
			continue
		}
		row.Meter, row.Link, row.Scope = child.Meter(), child.Path(), child.Scope()
		out = append(append(out, row), rows(snapshot, child, depth+1)...)
	}
	return out
}

// lengths counts the free blocks of a pool by length.
func lengths(snapshot *Snapshot, p *Pool) []fit {
	counts := map[int]int{}
	for _, free := range p.Space().Free() {
		counts[free.Bits()]++
	}
	all := make([]fit, 0, len(counts))
	for length, count := range counts {
		all = append(all, fit{Length: length, Count: strconv.Itoa(count), Link: snapshot.planFor(p, length)})
	}
	slices.SortFunc(all, func(a, b fit) int { return a.Length - b.Length })
	return all
}

// csv sends all rows of a pool as CSV.
func (s *server) csv(w http.ResponseWriter, r *http.Request) {
	var p *Pool
	snapshot, err := s.reading.get(r.Context())
	if err == nil {
		p, err = asked(r, snapshot)
	}
	if err != nil {
		s.fail(w, r, snapshot, err)
		return
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", "attachment")
	out := csv.NewWriter(w)
	write := func(cells ...string) { _ = out.Write(cells) } // an error means that the client has gone; Flush keeps it
	write("BLOCK", "ADDRESSES", "STATE", "HOLDER", "CLASS", "OWNER", "SINCE", "DEPTH", "SCOPE")
	for _, row := range rows(snapshot, p, 0) {
		since := ""
		if !row.Since.IsZero() {
			since = row.Since.UTC().Format("2006-01-02T15:04:05Z")
		}
		write(row.Block.String(), cidr.Size(row.Block).String(), row.Is(), legible.Cell(row.Holder), legible.Cell(row.Class),
			legible.Cell(row.Owner), since, strconv.Itoa(row.Depth), legible.Cell(row.Scope))
	}
	out.Flush()
}

// details has the facts about one block of a pool.
type details struct {
	Block netip.Prefix
	Kind  draw.Kind
	// Is is the word for the kind of the block, and Size is its number of addresses.
	Is, Size string
	// Because is the reason of a state; it may be empty.
	Because string
	Holder  *space.Holding
	// Others hold the same block in other address spaces of the pool.
	Others []space.Holding
	// Child is the link to the child pool that has the block.
	Child string
	// Zoom is the link to the map of the block; empty if the block cannot be divided.
	Zoom string
	// Fits has the blocks that would fit into a free block.
	Fits []fit
}

// fit is how many blocks of one length there are, or would fit.
type fit struct {
	Length int
	Count  string
	// Link leads to a plan for such a block; it may be empty.
	Link string
}

// detailsOf returns the facts about a block of a pool.
func (s *Snapshot) detailsOf(p *Pool, block netip.Prefix) *details {
	d := &details{Block: block, Size: sized(block)}
	if !block.IsSingleIP() {
		d.Zoom = p.Path(p.zoom(block)...)
	}
	at := slices.IndexFunc(p.Held, func(h space.Holding) bool {
		return h.Block.Overlaps(block) && h.Block.Bits() <= block.Bits()
	})
	if at >= 0 {
		d.heldBy(&p.Held[at])
		for _, h := range p.Held[at+1:] {
			if h.Block == d.Block {
				d.Others = append(d.Others, h)
			}
		}
		return d
	}
	if slices.ContainsFunc(p.Held, func(h space.Holding) bool { return h.Block.Overlaps(block) }) {
		d.Kind, d.Is = draw.Mixed, words[draw.Mixed]
		return d
	}
	d.Kind = p.rest()
	if p.Object != nil {
		state, _ := p.StateOf(block)
		d.Because = state.Because
		if state.Kept {
			d.Kind = draw.Kept
		}
	}
	d.Is = words[d.Kind]
	if d.Kind == draw.Free {
		d.Fits = s.fits(p, block)
	}
	return d
}

func (d *details) heldBy(h *space.Holding) {
	d.Block, d.Size = h.Block, sized(h.Block)
	d.Holder, d.Kind = h, kindOf(*h)
	d.Is = words[d.Kind]
	if h.Kind == space.Child {
		d.Child = (&Pool{Pool: space.Pool{Name: h.Name, Workspace: h.Workspace}}).Path()
	}
}

// fits returns how many blocks of the next few lengths fit into a free block. It has only lengths that the pool gives.
func (s *Snapshot) fits(p *Pool, block netip.Prefix) []fit {
	const shown = 6
	least, most := space.Lengths(block, p.Object.Spec)
	var all []fit
	for length := int(least); length <= int(most) && len(all) < shown; length++ {
		count := new(big.Int).Lsh(big.NewInt(1), uint(length-block.Bits()))
		all = append(all, fit{length, draw.Count(count), s.planFor(p, length)})
	}
	return all
}

// planFor returns the link to the plan for a block of a pool. The plan asks for the first class of the pool that gives
// the length, or for the pool itself if it backs no class. The link is empty if no class of the pool gives the length.
func (s *Snapshot) planFor(p *Pool, length int) string {
	query := url.Values{"length": {fmt.Sprint(length)}}
	switch classes := p.classes(); {
	case p.Object == nil:
		return ""
	case len(classes) == 0:
		query.Set("pool", p.Name)
		if p.Workspace != "" {
			query.Set("workspace", p.Workspace)
		}
	default:
		at := slices.IndexFunc(classes, func(name string) bool { return s.gives(name, int32(length)) })
		if at < 0 {
			return ""
		}
		query.Set("class", classes[at])
	}
	return "/plan?" + query.Encode()
}

// classes returns the names of the classes that the pool backs.
func (p *Pool) classes() []string {
	if p.Object == nil {
		return nil
	}
	return p.Object.Spec.ClassNames
}

// gives reports whether a class may allow a length. It returns true for a class that the caller does not see.
func (s *Snapshot) gives(class string, length int32) bool {
	at := slices.IndexFunc(s.Classes, func(c ipamv1alpha1.IPClass) bool { return c.Name == class })
	if at < 0 {
		return true
	}
	allowed := s.Classes[at].Spec.AllowedPrefixLengths
	return allowed == nil || length >= allowed.Min && length <= allowed.Max
}
