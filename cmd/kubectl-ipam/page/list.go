package page

import (
	"encoding/csv"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page/draw"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// listView is the space of a pool in rows.
type listView struct {
	*Pool
	paged[listRow]
	// Lengths are the free blocks by length; empty for none.
	Lengths []fit
	// CSV is where all rows are to be had as data.
	CSV string
}

// listRow is a block of a pool, or of one carved from it.
type listRow struct {
	Depth int
	Block netip.Prefix
	Kind  draw.Kind
	// Holder names the holder of the block; Link leads to it on a map.
	Holder, Class, Owner string
	// Scope has the objects that the block is given for, or its pool is made for; it may be empty.
	Scope     string
	Workspace string
	Since     metav1.Time
	Link      string
	// Meter is how full a child pool is.
	Meter meter
}

// Size is the number of addresses.
func (r listRow) Size() string { return draw.Size(r.Block) }

// Is says what the block is.
func (r listRow) Is() string { return words[r.Kind] }

// Indent is the class of a row that lies in a child pool.
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

// rows are the blocks of a pool by address, with the free ones between them, and below a child
// pool what it has.
func rows(snapshot *Snapshot, p *Pool, depth int) []listRow {
	window := p.Window()
	if !window.IsValid() {
		return nil
	}
	all := make([]listRow, 0, len(p.Held))
	for _, h := range p.Held {
		all = append(all, listRow{
			Depth: depth, Block: h.Block, Kind: kindOf(h), Holder: h.Holder, Class: h.Class, Owner: h.Owner, Scope: h.Scope,
			Workspace: h.Workspace, Since: h.Since, Link: p.At(window, h.Block),
		})
	}
	known := p.Space()
	for _, kept := range known.Kept {
		all = append(all, listRow{Depth: depth, Block: kept, Kind: draw.Kept, Link: p.At(window, kept)})
	}
	if p.Object != nil { // else it is not known where the pool ends
		rest := p.rest()
		for _, free := range known.Free() {
			all = append(all, listRow{Depth: depth, Block: free, Kind: rest, Link: p.At(window, free)})
		}
	}
	slices.SortStableFunc(all, func(a, b listRow) int { return a.Block.Compare(b.Block) })
	return grown(snapshot, p, all)
}

// grown puts the rows of child pools below them.
func grown(snapshot *Snapshot, p *Pool, all []listRow) []listRow {
	const deepest = 8 // a chain of parents cannot be longer than an address, nor a circle
	if len(all) == 0 || all[0].Depth == deepest || !slices.ContainsFunc(all, func(r listRow) bool { return r.Kind == draw.Child }) {
		return all
	}
	var out []listRow
	for _, row := range all {
		child, seen := snapshot.pool(row.Workspace, strings.TrimSuffix(strings.TrimPrefix(row.Holder, "pool "), " of "+row.Workspace))
		if row.Kind != draw.Child || !seen || child == p {
			out = append(out, row)
			continue
		}
		row.Meter, row.Link, row.Scope = child.Meter(), child.Path(), child.Scope()
		out = append(append(out, row), rows(snapshot, child, row.Depth+1)...)
	}
	return out
}

// lengths are the free blocks of a pool by length.
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

// csv writes all rows of a pool as data.
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
	write := func(cells ...string) { _ = out.Write(cells) } // Flush keeps the error: the client has gone
	write("BLOCK", "ADDRESSES", "STATE", "HOLDER", "CLASS", "OWNER", "SINCE", "DEPTH", "SCOPE")
	for _, row := range rows(snapshot, p, 0) {
		since := ""
		if !row.Since.IsZero() {
			since = row.Since.UTC().Format("2006-01-02T15:04:05Z")
		}
		write(row.Block.String(), cidr.Size(row.Block).String(), row.Is(), legible.Cell(row.Holder), legible.Cell(row.Class), legible.Cell(row.Owner), since, strconv.Itoa(row.Depth), legible.Cell(row.Scope))
	}
	out.Flush()
}
