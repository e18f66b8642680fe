package page

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// searchView is the page of the results of a search.
type searchView struct {
	Query string
	Hits  []hit
	// States say in which state each pool has the address or block that was searched for.
	States  []state
	Waiting []waiting
	Pools   []step
	// More is how many further hits there are.
	More int
	// Past is the history of the block that was searched for; nil for other searches.
	Past *past
	// Nowhere is set if no pool that is shown has the address.
	Nowhere bool
}

// hit is a block that was found.
type hit struct {
	space.Holding
	Pool, PoolLink string
	Link           string
}

// state is the state of a block in one pool.
type state struct {
	space.State
	Link string
}

// searchFor returns the link to the results of a search.
func searchFor(text string) string { return "/search?" + url.Values{"q": {text}}.Encode() }

func (s *server) search(r *http.Request, snapshot *Snapshot) (view, error) {
	data := searchView{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	if block, err := facts.ParseBlock(data.Query); err == nil {
		data.searchAddress(snapshot, block)
		data.searchPast(r.Context(), s, block)
		data.Nowhere = len(data.Hits)+len(data.States) == 0
	} else if data.Query != "" {
		data.searchText(snapshot, strings.ToLower(data.Query))
	}
	const shown = 200
	if data.More = len(data.Hits) - shown; data.More > 0 {
		data.Hits = data.Hits[:shown]
	}
	return view{Template: "search.html", Title: "Search", Data: data, Still: data.Past != nil}, nil
}

// searchAddress finds the holders of a block, and its state in each pool.
func (v *searchView) searchAddress(snapshot *Snapshot, block netip.Prefix) {
	for i := range snapshot.Pools {
		p := &snapshot.Pools[i]
		v.add(p, func(h space.Holding) bool { return h.Block.Overlaps(block) })
		if found, ok := p.StateOf(block); ok {
			v.States = append(v.States, state{found, p.AtBlock(found.Block)})
		}
	}
}

// searchText finds objects that have a text in their names. The text must be in lower case.
func (v *searchView) searchText(snapshot *Snapshot, text string) {
	has := func(in string) bool { return strings.Contains(strings.ToLower(in), text) }
	for i := range snapshot.Pools {
		p := &snapshot.Pools[i]
		if has(p.Name) || has(p.Scope()) {
			v.Pools = append(v.Pools, step{p.Title(), p.Path()})
		}
		v.add(p, func(h space.Holding) bool {
			return has(h.Name) || has(h.Workspace) || has(h.Owner) || has(h.Class) || has(h.Scope) || has(p.Scope()) ||
				h.Workspace == "" && has(snapshot.Workspace)
		})
	}
	for _, w := range waitingOf(snapshot) {
		if has(w.Namespace+"/"+w.Name) || has(w.Workspace) || has(space.OwnerOf(w.Spec.OwnerRef)) ||
			has(w.Spec.ClassName) || has(w.Scope()) {
			v.Waiting = append(v.Waiting, w)
		}
	}
}

// add adds the blocks of a pool for which matches returns true.
func (v *searchView) add(p *Pool, matches func(space.Holding) bool) {
	for _, h := range p.Held {
		if matches(h) {
			v.Hits = append(v.Hits, hit{h, p.Title(), p.Path(), p.AtBlock(h.Block)})
		}
	}
}
