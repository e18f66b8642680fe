package space

import (
	"fmt"
	"math/big"
	"net/netip"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/cidr"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// The states of an address.
const (
	WordAllocated = "allocated"
	WordRetained  = "retained"
	WordReserved  = "reserved"
	WordExcluded  = "excluded"
	WordFree      = "free"
	WordUnseen    = "free, or allocated to another workspace,"
	WordCooling   = "free, or cooling,"
	WordEither    = "free, cooling, or allocated to another workspace,"
)

// State is what one pool makes of a block, or of its own part of it.
type State struct {
	Block netip.Prefix
	// Word is one of the states, Pool the pool that says so, and Because the reason.
	Word, Pool, Because string
	// Kept is set if the pool never hands the block out, or a part of it.
	Kept bool
}

// Known reports whether no holder that is not shown can have the block.
func (s State) Known() bool { return s.Word != WordUnseen && s.Word != WordEither }

func (s State) String() string {
	said := fmt.Sprintf("%s is %s in pool %s", s.Block, s.Word, s.Pool)
	if s.Because == "" {
		return said
	}
	return said + ": " + s.Because
}

// StateOf is the state of a block, or of its part in a pool with this title; ok is false if the pool has none of
// the block, or a child pool has all of it.
func StateOf(pool *ipamv1alpha1.IPPool, title string, block netip.Prefix, held []Holding) (_ State, ok bool) {
	window, err := netip.ParsePrefix(pool.Status.AllocatedCIDR)
	if err != nil || !window.Overlaps(block) {
		return State{}, false
	}
	part := cidr.Narrower(window, block)
	state, ok := StateIn(pool, window, part, held)
	state.Block, state.Pool = part, fmt.Sprintf("%s (%s)", title, window)
	return state, ok
}

// StateIn is the state of a block in a pool, of which these holdings are visible; ok is false if
// a child pool has all of the block.
func StateIn(pool *ipamv1alpha1.IPPool, window, block netip.Prefix, held []Holding) (_ State, ok bool) {
	shown := Space{Pool: window, Taken: Within(window, held), Kept: KeptBack(window, pool.Spec)}
	for _, h := range held {
		if h.Block.Overlaps(block) {
			within := h.Block.Contains(block.Addr()) && h.Block.Bits() <= block.Bits()
			return State{Word: WordAllocated, Because: fmt.Sprintf("%s holds %s", h.Holder, h.Block)}, !within
		}
	}
	if at, found := FirstOverlap(Excluded(pool.Spec), block); found {
		return State{Kept: true, Word: WordExcluded, Because: fmt.Sprintf("spec.excludedCIDRs of the pool has %s", at)}, true
	}
	for _, w := range pool.Spec.Withheld(window) {
		if block.Contains(w.Address) {
			return State{Kept: true, Word: "the " + w.As, Because: fmt.Sprintf("%s is never handed out", w.Address)}, true
		}
	}
	if at, found := FirstOverlap(Edges(window, pool.Spec), block); found {
		return State{Kept: true, Word: WordReserved, Because: fmt.Sprintf("spec.reservations of the pool covers %s", at)}, true
	}
	if pool.Status.Capacity == nil {
		return State{Word: WordUnseen, Because: "the pool shows no figures yet"}, true
	}
	return unheld(pool, shown), true
}

// unheld is the state of a block without a visible holder.
func unheld(pool *ipamv1alpha1.IPPool, shown Space) State {
	if _, ok := new(big.Int).SetString(pool.Status.Capacity.Allocated, 10); !ok {
		return State{Word: WordUnseen, Because: "the pool's figures cannot be read"}
	}
	hidden, cooling := shown.Unseen(pool.Status.Capacity), Cooling(pool.Status.Capacity).Sign() > 0
	others := "others hold " + plural.Of(hidden.String(), "address of the pool, which is", "addresses of the pool, which are") + " not shown to you"
	switch {
	case cooling && hidden.Sign() > 0:
		return State{Word: WordEither, Because: others + "; " + CoolsUntil(pool)}
	case cooling:
		return State{Word: WordCooling, Because: CoolsUntil(pool)}
	case hidden.Sign() > 0:
		return State{Word: WordUnseen, Because: others}
	}
	return State{Word: WordFree}
}

// FirstOverlap is the first of the prefixes that overlaps a block.
func FirstOverlap(prefixes []netip.Prefix, block netip.Prefix) (netip.Prefix, bool) {
	for _, p := range prefixes {
		if p.Overlaps(block) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}
