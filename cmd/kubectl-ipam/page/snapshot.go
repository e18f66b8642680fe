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

// Source is the API as the caller may use it. Its methods may be called at the same time.
type Source interface {
	// Read reads all that the caller may see.
	Read(ctx context.Context) (*Snapshot, error)
	// Preview asks for the answer to a claim and stores nothing. It leaves the answer in the claim.
	Preview(ctx context.Context, claim *ipamv1alpha1.IPClaim) error
	// History asks who holds and held addresses, which few users may.
	History(ctx context.Context, q lookup.Query) (lookup.Answer, error)
}

// Snapshot is what the caller may see. It is not changed once it is read.
type Snapshot struct {
	// Workspace is the current one, Namespace the current namespace.
	Workspace, Namespace string
	// Tenants is set if the caller sees the workspaces of all tenants.
	Tenants bool
	Pools   []Pool
	Classes []ipamv1alpha1.IPClass
	Claims  []Claim

	at time.Time // when it was read
}

// At says when the snapshot was read; empty for none.
func (s *Snapshot) At() string {
	if s.at.IsZero() {
		return ""
	}
	return s.at.UTC().Format("15:04:05") + " UTC"
}

// Pool is a pool with the blocks of it that the caller may see.
type Pool struct {
	space.Pool
	// Chosen is the address space whose blocks alone are shown; empty: those of all. Spaces are those that there are to
	// choose from.
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

// choose returns the pool with the blocks of one address space, if one is given, of those that the caller sees blocks
// of.
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

// Scope lists the objects that the pool is for; empty for a pool that is for all.
func (p *Pool) Scope() string {
	if p.Object == nil {
		return ""
	}
	return facts.Scope(p.Object.Spec.Scope)
}

// Range returns the class that made the pool for a scope; empty for a pool that somebody has written.
func (p *Pool) Range() string {
	if p.Object == nil || p.Object.Spec.ClassRef == nil {
		return ""
	}
	return p.Object.Spec.ClassRef.Name
}

// Path returns the place of the pool; parts come behind its name, as a prefix or the word list.
func (p *Pool) Path(parts ...string) string { return p.link(nil, parts...) }

// At returns the path of the pool with the details of a block, within a window.
func (p *Pool) At(window, block netip.Prefix) string {
	return p.link(url.Values{"block": {block.String()}}, p.zoom(window)...) + "#block"
}

func (p *Pool) link(query url.Values, parts ...string) string {
	// The parts are prefixes, or words of this program.
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

// AtBlock returns the path of the pool with the details of a block, in a part of the pool that is small enough for the
// block to be drawn.
func (p *Pool) AtBlock(block netip.Prefix) string {
	const drawn = 8 // bits: a map has a thousand boxes at most
	window := p.Window()
	if near := widened(block, drawn); near.Bits() > window.Bits() && window.Contains(near.Addr()) {
		window = near
	}
	return p.At(window, block)
}

// zoom returns the part of a path for a window; none for the whole pool.
func (p *Pool) zoom(window netip.Prefix) []string {
	if window == p.Window() {
		return nil
	}
	return []string{window.String()}
}

// Window returns the block of the pool. Of a pool that may not be seen it is a part around the caller's
// own blocks. It is the zero Prefix if the pool has no block.
func (p *Pool) Window() netip.Prefix {
	if p.Object != nil {
		window, _ := netip.ParsePrefix(p.Object.Status.AllocatedCIDR)
		return window
	}
	if len(p.Held) == 0 {
		return netip.Prefix{}
	}
	const around = 2 // bits, for the neighbourhood of one block
	window := p.Held[0].Block
	for _, h := range p.Held {
		if h.Block.Addr().Is4() != window.Addr().Is4() {
			continue // of another pool of the same name, at another time
		}
		for !window.Contains(h.Block.Addr()) {
			window = widened(window, 1)
		}
	}
	return widened(window, around)
}

// widened returns the prefix around a prefix that is so many bits shorter.
func widened(p netip.Prefix, bits int) netip.Prefix {
	return netip.PrefixFrom(p.Addr(), max(p.Bits()-bits, 0)).Masked()
}

// Hidden returns the number of addresses that others hold unseen; empty for none, or if it is not known.
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

// kindOf returns the kind by which a holding is drawn.
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

// blocks returns the blocks of a pool to draw.
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

// labelOf returns a holder in few words.
func labelOf(h space.Holding) string {
	switch {
	case h.Kind == space.Child:
		return "pool " + h.Name
	case h.Scope != "":
		return space.In(h.Name, h.Workspace) + " for " + h.Scope
	}
	return space.In(h.Name, h.Workspace)
}

// pool finds a pool; ok is false if the caller sees none of that name.
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

// reading shares one snapshot between the requests of a short time.
type reading struct {
	source Source
	now    func() time.Time
	// turn has the last snapshot while no request reads; a request waits for it, or for its own end.
	turn chan last
}

// last is the last snapshot, if there is one, and until when it is fresh.
type last struct {
	snapshot *Snapshot
	until    time.Time
}

func newReading(source Source, now func() time.Time) *reading {
	r := &reading{source: source, now: now, turn: make(chan last, 1)}
	r.turn <- last{}
	return r
}

// fresh is for how long a snapshot is used; one that took long to read, for several times that long.
const (
	fresh     = 2 * time.Second
	freshness = 4
)

// get returns a snapshot that is fresh.
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
