package space

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// These are the states of an address.
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

// State is the state of a block in a pool, or of the part of the block that is in the pool.
type State struct {
	Block netip.Prefix
	// Word is one of the states. Pool is the pool that the state is from, and Because is the reason.
	Word, Pool, Because string
	// Kept is set if the pool never hands out the block or a part of it.
	Kept bool
}

// Known reports whether it is certain that no hidden holder has the block.
func (s State) Known() bool { return s.Word != WordUnseen && s.Word != WordEither }

func (s State) String() string {
	said := fmt.Sprintf("%s is %s in pool %s", s.Block, s.Word, s.Pool)
	if s.Because == "" {
		return said
	}
	return said + ": " + s.Because
}

// StateOf returns the state of a block, or of the part of it that is in the pool. ok is false if the pool has no part
// of the block, or if a child pool has all of that part.
func (p *Pool) StateOf(block netip.Prefix) (_ State, ok bool) {
	window := p.Space().Pool
	if !window.Overlaps(block) {
		return State{}, false
	}
	part := cidr.Narrower(window, block)
	state, ok := p.stateIn(window, part)
	state.Block, state.Pool = part, fmt.Sprintf("%s (%s)", p.Title(), window)
	return state, ok
}

// stateIn returns the state of a block inside the pool. ok is false if a child pool has all of it.
func (p *Pool) stateIn(window, block netip.Prefix) (_ State, ok bool) {
	pool := p.Object
	for _, h := range p.Held {
		if h.Block.Overlaps(block) {
			within := h.Block.Contains(block.Addr()) && h.Block.Bits() <= block.Bits()
			because := fmt.Sprintf("%s holds %s", h.Holder, h.Block)
			if at, excluded := p.StaysIn(h.Block); excluded {
				because += fmt.Sprintf(", and nobody gets it after that: spec.excludedCIDRs of the pool has %s", at)
			}
			return State{Word: WordAllocated, Because: because}, !within
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
		because := fmt.Sprintf("spec.reservations of the pool covers %s", at)
		return State{Kept: true, Word: WordReserved, Because: because}, true
	}
	if pool.Status.Capacity == nil {
		return State{Word: WordUnseen, Because: "the pool shows no figures yet"}, true
	}
	return p.unheld(), true
}

// unheld returns the state of a block without a visible holder.
func (p *Pool) unheld() State {
	if _, ok := new(big.Int).SetString(p.Object.Status.Capacity.Allocated, 10); !ok {
		return State{Word: WordUnseen, Because: "the pool's figures cannot be read"}
	}
	switch others, cools := p.OthersHold(), CoolsUntil(p.Object); {
	case others != "" && cools != "":
		return State{Word: WordEither, Because: others + "; " + cools}
	case cools != "":
		return State{Word: WordCooling, Because: cools}
	case others != "":
		return State{Word: WordUnseen, Because: others}
	}
	return State{Word: WordFree}
}

// FirstOverlap returns the first of the prefixes that overlaps a block.
func FirstOverlap(prefixes []netip.Prefix, block netip.Prefix) (netip.Prefix, bool) {
	for _, p := range prefixes {
		if p.Overlaps(block) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

// Kind says what holds a block.
type Kind uint8

const (
	// Claimed is a block that a claim holds.
	Claimed Kind = iota
	// Retained is a block that its reclaim policy keeps after its claim is gone.
	Retained
	// Child is the block of a pool that was carved from the pool.
	Child
)

// Holding is a block of a pool, with its holder, as the caller sees it.
type Holding struct {
	Block netip.Prefix
	Kind  Kind
	// Slice is set for a child pool that is the slice of a workspace. Limits do not count it.
	Slice bool
	// Name is the name of the claim, as namespace/name, or of the child pool. For a retained block whose claim is not
	// known, it is the name of the namespace.
	Name string
	// Workspace is the workspace of the holder; empty for the current one.
	Workspace string
	// Holder names the holder in words. It adds the workspace if that is not the current one.
	Holder string
	Class  string
	// Scope has the objects within which the block is unique, such as network=vpc-1; empty: it is unique in the pool.
	Scope string
	// Owner is the object that uses the block, such as Service/default/web; empty if the claim names none.
	Owner string
	// Since is when the IPAllocation was created.
	Since metav1.Time
}

// meets reports whether the block keeps a claim with this scope from getting the same addresses. A holding has its
// scope only in words, which name no kinds. So if objects of two kinds have the same name, the blocks of both are
// taken.
func (h Holding) meets(scope ipamv1alpha1.Scope) bool {
	if h.Scope == "" {
		return true
	}
	within := strings.Split(ipamv1alpha1.ScopeColumn(scope), ",")
	for object := range strings.SplitSeq(h.Scope, ",") {
		if !slices.Contains(within, object) {
			return false
		}
	}
	return true
}

// HoldingOf returns what an allocation says about its block. The caller sets Block and Workspace.
func HoldingOf(a *ipamv1alpha1.IPAllocation) Holding {
	claim, _ := a.HeldBy()
	h := Holding{
		Name: a.Namespace + "/" + claim, Class: a.Spec.ClassName, Scope: ipamv1alpha1.ScopeColumn(a.Spec.Scope),
		Owner: OwnerOf(a.Spec.OwnerRef), Since: a.CreationTimestamp,
	}
	switch {
	case a.Spec.ClaimRef != nil:
		h.Holder = "claim " + h.Name
	case claim == "":
		h.Kind, h.Name, h.Holder = Retained, a.Namespace, "retained in "+a.Namespace
	default:
		h.Kind, h.Holder = Retained, "retained for "+h.Name
	}
	return h
}

// OwnerOf writes the object that uses a block as KIND/NAMESPACE/NAME, without its group; empty if there is none.
func OwnerOf(ref *ipamv1alpha1.OwnerRef) string {
	switch {
	case ref == nil:
		return ""
	case ref.Namespace == "":
		return ref.Kind + "/" + ref.Name
	default:
		return ref.Kind + "/" + ref.Namespace + "/" + ref.Name
	}
}

// Ref returns a reference to a pool. An empty workspace is the current one. Without a name the reference is nil.
func Ref(name, workspace string) *ipamv1alpha1.PoolRef {
	if name == "" {
		return nil
	}
	ref := &ipamv1alpha1.PoolRef{Name: name}
	if workspace != "" {
		ref.ProjectRef = &ipamv1alpha1.ProjectRef{Name: workspace}
	}
	return ref
}

// In names an object in a workspace. It does not name an empty workspace, which is the current one.
func In(name, workspace string) string {
	if name == "" || workspace == "" {
		return name
	}
	return name + " of " + workspace
}
