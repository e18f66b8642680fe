package page

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page/draw"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/lookup"
)

// Source reads the API with the rights of the caller. Safe for concurrent use.
type Source interface {
	// Read reads everything that the caller may see.
	Read(ctx context.Context) (*Snapshot, error)
	// Preview asks for the answer to a claim, and puts it into the claim. It stores nothing.
	Preview(ctx context.Context, claim *ipamv1alpha1.IPClaim) error
	// History reads who holds and held addresses. Few users may read this.
	History(ctx context.Context, q lookup.Query) (lookup.Answer, error)
}

// Snapshot is everything that the caller may see. It does not change after it was read.
type Snapshot struct {
	// Workspace is the current workspace, and Namespace the current namespace.
	Workspace, Namespace string
	// Tenants is set if the caller sees the workspaces of all tenants.
	Tenants bool
	Pools   []Pool
	Classes []ipamv1alpha1.IPClass
	Claims  []Claim

	at time.Time // when it was read
}

// At says when the snapshot was read; empty if it was not.
func (s *Snapshot) At() string {
	if s.at.IsZero() {
		return ""
	}
	return s.at.UTC().Format("15:04:05") + " UTC"
}

// Pool is a pool with those of its blocks that the caller may see.
type Pool struct {
	space.Pool
	// Chosen is the only address space whose blocks are shown; empty: those of all are. Spaces are the address spaces that
	// the user can choose from.
	Chosen string
	Spaces []string
}

// spaceOf names the address space that a block is in; empty for a pool without address spaces.
func spaceOf(h space.Holding) string {
	if h.Scope == "" {
		return ""
	}
	return space.In(h.Scope, h.Workspace)
}

// choose returns the pool with the blocks of the chosen address space; empty: of all. It fails if the caller sees no
// block in that address space.
func (p *Pool) choose(chosen string) (*Pool, error) {
	if p.Object == nil || p.Object.Status.Spaces == 0 {
		return p, nil
	}
	own := &Pool{Pool: p.Pool, Chosen: chosen}
	for _, h := range p.Held {
		if in := spaceOf(h); in != "" && !slices.Contains(own.Spaces, in) {
			own.Spaces = append(own.Spaces, in)
		}
	}
	slices.Sort(own.Spaces)
	switch {
	case chosen == "":
		return own, nil
	case !slices.Contains(own.Spaces, chosen):
		return nil, &problem{http.StatusNotFound, "You may see no block of " + p.Title() + " for " + chosen + "."}
	}
	own.Pool = *p.Among(func(h space.Holding) bool { return spaceOf(h) == chosen })
	return own, nil
}

// Claim is a claim with its workspace, which is empty for the current one.
type Claim struct {
	*ipamv1alpha1.IPClaim
	Workspace string
}

// Waits reports whether the claim has no block.
func (c Claim) Waits() bool { return c.Status.AllocatedCIDR == "" }

// Scope lists the objects that the pool is for; empty for a pool without a scope.
func (p *Pool) Scope() string {
	if p.Object == nil {
		return ""
	}
	return facts.Scope(p.Object.Spec.Scope)
}

// Range returns the class that made the pool for a scope; empty for a pool that a user has written.
func (p *Pool) Range() string {
	if p.Object == nil || p.Object.Spec.ClassRef == nil {
		return ""
	}
	return p.Object.Spec.ClassRef.Name
}

// Path returns the path of the pool's page. parts come after the pool's name, such as a prefix, or the word list.
func (p *Pool) Path(parts ...string) string { return p.link(nil, parts...) }

// At returns the path of a map of the pool that shows a window, and the details of a block.
func (p *Pool) At(window, block netip.Prefix) string {
	return p.link(url.Values{"block": {block.String()}}, p.zoom(window)...) + "#block"
}

func (p *Pool) link(query url.Values, parts ...string) string {
	// The parts are prefixes or words of this program, and need no escaping.
	path := "/pool/" + strings.Join(append([]string{url.PathEscape(p.Name)}, parts...), "/")
	if query == nil {
		query = url.Values{}
	}
	if p.Workspace != "" {
		query.Set("workspace", p.Workspace)
	}
	if p.Chosen != "" {
		query.Set("space", p.Chosen)
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// AtBlock returns the path of a map of the pool with the details of a block. The map shows a part of the pool that is
// small enough to draw the block.
func (p *Pool) AtBlock(block netip.Prefix) string {
	const drawn = 8 // bits: a map has at most a thousand boxes
	window := p.Window()
	if near := widened(block, drawn); near.Bits() > window.Bits() && window.Contains(near.Addr()) {
		window = near
	}
	return p.At(window, block)
}

// zoom returns the part of a path that names a window; none for the whole pool.
func (p *Pool) zoom(window netip.Prefix) []string {
	if window == p.Window() {
		return nil
	}
	return []string{window.String()}
}

// Window returns the block of the pool; the zero Prefix if it has none. If the caller may not see the pool, Window
// returns a prefix around the caller's own blocks.
func (p *Pool) Window() netip.Prefix {
	if p.Object != nil {
		window, _ := netip.ParsePrefix(p.Object.Status.AllocatedCIDR)
		return window
	}
	if len(p.Held) == 0 {
		return netip.Prefix{}
	}
	const around = 2 // bits: what is shown around a single block
	window := p.Held[0].Block
	for _, h := range p.Held {
		if h.Block.Addr().Is4() != window.Addr().Is4() {
			continue // from a former pool of the same name
		}
		for !window.Contains(h.Block.Addr()) {
			window = widened(window, 1)
		}
	}
	return widened(window, around)
}

// widened returns the prefix that contains p and is shorter by this number of bits.
func widened(p netip.Prefix, bits int) netip.Prefix {
	return netip.PrefixFrom(p.Addr(), max(p.Bits()-bits, 0)).Masked()
}

// Hidden returns how many addresses others hold without the caller seeing them; empty for none, or if this is not
// known.
func (p *Pool) Hidden() string {
	if others := p.Others(); others != nil && others.Sign() > 0 {
		return draw.Count(others)
	}
	return ""
}

// Cools says how much of the pool cools, and until when; empty if nothing does.
func (p *Pool) Cools() string {
	if !p.Shown() {
		return ""
	}
	return space.CoolsUntil(p.Object)
}

// Meter returns how full the pool is.
func (p *Pool) Meter() meter {
	if p.Object == nil || p.Object.Status.UtilizationPercent == nil {
		return meter{Figure: "not known", Words: "how full is not known"}
	}
	return newMeter(*p.Object.Status.UtilizationPercent)
}

// rest returns the kind of the addresses between the visible blocks: Free, Cooling or Unseen.
func (p *Pool) rest() draw.Kind {
	switch others := p.Others(); {
	case others == nil || others.Sign() > 0:
		return draw.Unseen
	case p.Cools() != "":
		return draw.Cooling
	default:
		return draw.Free
	}
}

// kindOf returns the kind as which a holding is drawn.
func kindOf(h space.Holding) draw.Kind {
	switch {
	case h.Kind == space.Child:
		return draw.Child
	case h.Kind == space.Retained:
		return draw.Retained
	case h.Workspace != "":
		return draw.Foreign
	default:
		return draw.Own
	}
}

// blocks returns the blocks on the map of a pool.
func (p *Pool) blocks() []draw.Block {
	blocks := make([]draw.Block, 0, len(p.Held))
	for _, h := range p.Held {
		label := labelOf(h)
		if _, excluded := p.StaysIn(h.Block); excluded {
			label += ", in an exclusion"
		}
		short := h.Name[strings.LastIndex(h.Name, "/")+1:]
		blocks = append(blocks, draw.Block{Prefix: h.Block, Kind: kindOf(h), Label: label, Short: short})
	}
	for _, kept := range p.Space().Kept {
		blocks = append(blocks, draw.Block{Prefix: kept, Kind: draw.Kept})
	}
	draw.Sort(blocks)
	return blocks
}

// labelOf names a holder in few words.
func labelOf(h space.Holding) string {
	switch {
	case h.Kind == space.Child:
		return "pool " + h.Name
	case h.Scope != "":
		return space.In(h.Name, h.Workspace) + " for " + h.Scope
	}
	return space.In(h.Name, h.Workspace)
}

// pool returns a pool; ok is false if the caller sees no pool of this name.
func (s *Snapshot) pool(workspace, name string) (_ *Pool, ok bool) {
	for i := range s.Pools {
		if p := &s.Pools[i]; p.Name == name && p.Workspace == workspace {
			return p, true
		}
	}
	return nil, false
}

// own returns a workspace as a snapshot names it: empty for the current one.
func (s *Snapshot) own(workspace string) string {
	if workspace == s.Workspace {
		return ""
	}
	return workspace
}

// reading shares one snapshot among the requests within a short time.
type reading struct {
	source Source
	now    func() time.Time
	// turn has the last snapshot while no request reads. A request waits for it until the request itself ends.
	turn chan last
}

// last is the last snapshot, or nil, and the time until which it is fresh.
type last struct {
	snapshot *Snapshot
	until    time.Time
}

func newReading(source Source, now func() time.Time) *reading {
	r := &reading{source: source, now: now, turn: make(chan last, 1)}
	r.turn <- last{}
	return r
}

// A snapshot is used for the time fresh. If it took long to read, it is used for freshness times as long.
const (
	fresh     = 2 * time.Second
	freshness = 4
)

// get returns a fresh snapshot.
func (r *reading) get(ctx context.Context) (*Snapshot, error) {
	var now last
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case now = <-r.turn:
	}
	defer func() { r.turn <- now }()
	start := r.now()
	if now.snapshot != nil && start.Before(now.until) {
		return now.snapshot, nil
	}
	snapshot, err := r.source.Read(ctx)
	if err != nil {
		return nil, err
	}
	end := r.now()
	snapshot.at = end
	now = last{snapshot, end.Add(max(fresh, freshness*end.Sub(start)))}
	return snapshot, nil
}
