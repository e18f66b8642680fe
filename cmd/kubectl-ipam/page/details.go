package page

import (
	"fmt"
	"math/big"
	"net/netip"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page/draw"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// details are what is known of one block of a pool.
type details struct {
	Block netip.Prefix
	Kind  draw.Kind
	// Is says what the kind means, Size how many addresses there are.
	Is, Size string
	// Because is the reason of a state; it may be empty.
	Because string
	Holder  *space.Holding
	// Others hold the same block, each in an address space of its own.
	Others []space.Holding
	// Child leads to the pool that has the block.
	Child string
	// Zoom leads to the map of the block; empty if it has no parts.
	Zoom string
	// Fits are the blocks that fit into a free one.
	Fits []fit
}

// fit is how many blocks of a length there are, or would be.
type fit struct {
	Length int
	Count  string
	// Link leads to the plan for such a block; it may be empty.
	Link string
}

// detailsOf returns the facts about a block of a pool.
func (s *Snapshot) detailsOf(p *Pool, block netip.Prefix) *details {
	d := &details{Block: block, Size: sized(block)}
	if !block.IsSingleIP() {
		d.Zoom = p.Path(p.zoom(block)...)
	}
	at := slices.IndexFunc(p.Held, func(h space.Holding) bool { return h.Block.Overlaps(block) && h.Block.Bits() <= block.Bits() })
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
		state, _ := space.StateIn(p.Object, p.Window(), block, p.Held)
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
		d.Child = (&Pool{Name: h.Name, Workspace: h.Workspace}).Path()
	}
}

// Since returns when the holder got the block.
func (d *details) Since() metav1.Time {
	if d.Holder == nil {
		return metav1.Time{}
	}
	return d.Holder.Since
}

// fits returns the next few lengths that a free block has room for, among those that the pool gives.
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

// planFor leads to the plan for a block of a pool, by the first class that gives the length, or from the pool itself if it
// backs none; empty if none of its classes gives the length.
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

// gives reports whether a class allows a length. One that is not shown may.
func (s *Snapshot) gives(class string, length int32) bool {
	at := slices.IndexFunc(s.Classes, func(c ipamv1alpha1.IPClass) bool { return c.Name == class })
	if at < 0 {
		return true
	}
	allowed := s.Classes[at].Spec.AllowedPrefixLengths
	return allowed == nil || length >= allowed.Min && length <= allowed.Max
}
