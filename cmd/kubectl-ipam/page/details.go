package page

import (
	"fmt"
	"math/big"
	"net/netip"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// detailsOf is what is known of a block of a pool.
func detailsOf(p *Pool, block netip.Prefix) *details {
	d := &details{Block: block, Size: sized(block)}
	if !block.IsSingleIP() {
		d.Zoom = p.Path(p.zoom(block)...)
	}
	at := slices.IndexFunc(p.Held, func(h space.Holding) bool { return h.Block.Overlaps(block) && h.Block.Bits() <= block.Bits() })
	if at >= 0 {
		d.heldBy(&p.Held[at])
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
		d.Fits = fits(p, block)
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

// Since is when the holder got the block.
func (d *details) Since() metav1.Time {
	if d.Holder == nil {
		return metav1.Time{}
	}
	return d.Holder.Since
}

// fits are the next few lengths that a free block has room for, among those that the pool gives.
func fits(p *Pool, block netip.Prefix) []fit {
	const shown = 6
	bounds := p.Object.Spec.Allocation
	last := block.Addr().BitLen()
	if bounds.MaxPrefixLength != 0 {
		last = int(bounds.MaxPrefixLength)
	}
	var all []fit
	for length := max(block.Bits(), int(bounds.MinPrefixLength)); length <= last && len(all) < shown; length++ {
		count := new(big.Int).Lsh(big.NewInt(1), uint(length-block.Bits()))
		all = append(all, fit{length, draw.Count(count), planFor(p, length)})
	}
	return all
}

// planFor leads to the plan for a block of a pool; empty if the pool backs no class.
func planFor(p *Pool, length int) string {
	if p.Object == nil || len(p.Object.Spec.ClassNames) == 0 {
		return ""
	}
	return "/plan?" + url.Values{"class": {p.Object.Spec.ClassNames[0]}, "length": {fmt.Sprint(length)}}.Encode()
}
