package page

import (
	"cmp"
	"fmt"
	"math/big"
	"net/http"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page/draw"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/cidr"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// overview is everything at a glance.
type overview struct {
	Tiles   []tile
	Classes []ipamv1alpha1.IPClass
	// Waiting is how many claims have no block. Waits and Stalled are the largest groups of these claims, and Groups is
	// the number of further groups.
	Waiting        int
	Waits, Stalled []group
	Groups         int
	// Attention is shown before the pools, and Later is shown after them.
	Attention, Later []attention
	Blocks           int
	// Ranges is how many pools were made for scopes. They are on the page of networks.
	Ranges int
}

// tile is a pool at a glance.
type tile struct {
	*Pool
	Map draw.Figure
	// Mine is the number of addresses that the caller's workspace holds.
	Mine *big.Int
	// Outlook says when the pool will be full; empty if it does not fill.
	Outlook string
	// Ranges is how many pools inside this pool were made for scopes.
	Ranges int
}

// first is how many groups, and how many things that need attention, are shown before the pools.
const first = 5

func (s *server) overview(_ *http.Request, snapshot *Snapshot) (view, error) {
	all := waitingOf(snapshot)
	data := overview{Classes: snapshot.Classes, Waiting: len(all), Attention: attentionOf(snapshot)}
	shown := min(first, len(data.Attention))
	data.Attention, data.Later = data.Attention[:shown], data.Attention[shown:]
	groups := groupsOf(all)
	data.Groups = max(0, len(groups)-first)
	for _, g := range groups[:len(groups)-data.Groups] {
		if g.Stalled {
			data.Stalled = append(data.Stalled, g)
			continue
		}
		data.Waits = append(data.Waits, g)
	}
	inside := snapshot.ranges()
	for i := range snapshot.Pools {
		p := &snapshot.Pools[i]
		data.Blocks += len(p.Held)
		if p.Range() != "" {
			data.Ranges++
			continue
		}
		t := s.tileOf(p)
		t.Ranges = inside[placed{p.Workspace, p.Name}]
		data.Tiles = append(data.Tiles, t)
	}
	slices.SortStableFunc(data.Tiles, func(a, b tile) int {
		return cmp.Or(a.Window().Compare(b.Window()), cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Name, b.Name))
	})
	return view{Template: "overview.html", Title: "Overview", Data: data}, nil
}

// placed identifies a pool.
type placed struct{ workspace, name string }

// ranges counts the pools that were made for scopes. It counts each at the nearest pool above it that a user has
// written.
func (s *Snapshot) ranges() map[placed]int {
	above := map[placed]*Pool{} // the parent, by the child pool
	for i := range s.Pools {
		for _, h := range s.Pools[i].Held {
			if h.Kind == space.Child {
				above[placed{h.Workspace, h.Name}] = &s.Pools[i]
			}
		}
	}
	counts := map[placed]int{}
	const deepest = 9 // a chain of classes, and its root
	for i := range s.Pools {
		p, depth := &s.Pools[i], 0
		for ; p != nil && p.Range() != "" && depth < deepest; depth++ {
			p = above[placed{p.Workspace, p.Name}]
		}
		if p != nil && depth > 0 {
			counts[placed{p.Workspace, p.Name}]++
		}
	}
	return counts
}

func (s *server) tileOf(p *Pool) tile {
	t := tile{Pool: p, Mine: new(big.Int), Outlook: space.OutlookOf(p.Object, s.Now()).Soon()}
	for _, h := range p.Held {
		if h.Workspace == "" && (h.Kind != space.Child || h.Slice) {
			t.Mine.Add(t.Mine, cidr.Size(h.Block))
		}
	}
	if window := p.Window(); window.IsValid() {
		const boxes, least = 160, 1500 // for a glance
		small := draw.Map{Window: window, Blocks: p.blocks(), Rest: p.rest(), Limit: boxes, Least: least}
		t.Map = small.Figure("Map of pool "+p.Title(), p.Meter().Words, nil)
	}
	return t
}

// meter shows how full something is.
type meter struct {
	// Known is set if there is a figure. Percent is the figure from 0 to 100, Figure is the same for people, and Words is
	// a sentence with it.
	Known   bool
	Percent float64
	Figure  string
	Words   string
	// Level is ok, high or full.
	Level string
}

// shareOf returns a meter that shows part as a share of whole.
func shareOf(part, whole *big.Int) meter {
	if whole.Sign() == 0 {
		return newMeter(0)
	}
	share, _ := new(big.Rat).SetFrac(part, whole).Float64()
	return newMeter(min(share*100, 100))
}

// newMeter returns a meter. From 90 percent on it is full, from 75 percent on it is high, as in pool list.
func newMeter(percent float64) meter {
	figure := ipamv1alpha1.UtilizationColumn(percent)
	m := meter{Known: true, Percent: min(percent, 100), Figure: figure, Words: figure + " used", Level: "ok"}
	switch {
	case percent >= 90:
		m.Level = "full"
	case percent >= 75:
		m.Level = "high"
	}
	return m
}

// Width returns the width of the bar, from 0 to 100. A small share has a visible width.
func (m meter) Width() string {
	if m.Percent > 0 && m.Percent < 1 {
		return "1"
	}
	return fmt.Sprintf("%.1f", m.Percent)
}

// sized writes the number of addresses of a prefix.
func sized(p netip.Prefix) string { return plural.Of(draw.Size(p), "address", "addresses") }

// attention is something that somebody has to look at.
type attention struct {
	// Bad is set for what is broken or full. All else is only worth knowing.
	Bad bool
	// What names the object. Link leads to it, and may be empty.
	What, Link string
	// Is says in a word or two what the matter is, and Because says why.
	Is, Because string
}

// attentionOf returns what needs attention by the conditions and figures of all objects, the worst first.
func attentionOf(s *Snapshot) []attention {
	var all []attention
	for i := range s.Pools {
		if p := &s.Pools[i]; p.Object != nil {
			all = append(all, poolAttention(p)...)
		}
	}
	for i := range s.Classes {
		all = append(all, classAttention(&s.Classes[i])...)
	}
	for _, c := range s.Claims {
		all = append(all, claimAttention(c)...)
	}
	slices.SortStableFunc(all, func(a, b attention) int {
		if a.Bad == b.Bad {
			return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.Is, b.Is))
		}
		if a.Bad {
			return -1
		}
		return 1
	})
	return all
}

func poolAttention(p *Pool) []attention {
	var all []attention
	add := func(bad bool, is, because string) {
		all = append(all, attention{bad, "pool " + p.Title(), p.Path(), is, because})
	}
	status := p.Object.Status
	// A pool that has its CIDR may be frozen, or serve nobody. Then only Ready is false, and its message says why. That a
	// pool drains is added by marked.
	for _, kind := range []string{ipamv1alpha1.ConditionAllocated, ipamv1alpha1.ConditionReady} {
		c := meta.FindStatusCondition(status.Conditions, kind)
		if c != nil && (c.Status == metav1.ConditionTrue || c.Reason == string(ipamv1alpha1.ReasonBlockInUse)) {
			continue
		}
		add(true, "not ready", saidBy(c))
		break
	}
	switch percent := status.UtilizationPercent; {
	case status.Phase == ipamv1alpha1.PoolExhausted:
		add(true, "full", "no address is free")
	case percent != nil && *percent >= 90:
		said := facts.Utilisation(p.Object) + " used"
		if free := facts.LargestFree(p.Object); free != "" {
			said += ", largest free block " + free
		}
		add(false, "nearly full", said)
	}
	marked(status.Conditions, add)
	return all
}

func classAttention(c *ipamv1alpha1.IPClass) []attention {
	what := "class " + c.Name
	ready := meta.FindStatusCondition(c.Status.Conditions, ipamv1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.Status != metav1.ConditionTrue:
		return []attention{{true, what, "", "not ready", saidBy(ready)}}
	case c.Status.OfferingPools == 0:
		return []attention{{false, what, "", "no pool", "no ready pool of the platform backs it"}}
	default:
		return nil
	}
}

func claimAttention(c Claim) []attention {
	var all []attention
	marked(c.Status.Conditions, func(bad bool, is, because string) {
		name := c.Namespace + "/" + c.Name
		all = append(all, attention{bad, "claim " + space.In(name, c.Workspace), searchFor(name), is, because})
	})
	return all
}

// marked calls add for each condition that needs attention.
func marked(conditions []metav1.Condition, add func(bad bool, is, because string)) {
	for _, mark := range []struct {
		kind, is string
		bad      bool
	}{
		{ipamv1alpha1.ConditionDraining, "draining", false},
		{ipamv1alpha1.ConditionOverlapping, "overlaps", false},
	} {
		if c := meta.FindStatusCondition(conditions, mark.kind); c != nil && c.Status == metav1.ConditionTrue {
			add(mark.bad, mark.is, c.Message)
		}
	}
	if c := meta.FindStatusCondition(conditions, ipamv1alpha1.ConditionSliced); c != nil &&
		c.Status == metav1.ConditionFalse {
		add(false, "slices wait", saidBy(c))
	}
}

// saidBy returns the reason and message of a condition; a nil condition is not there yet.
func saidBy(c *metav1.Condition) string {
	if c == nil {
		return "there is no answer yet"
	}
	return c.Reason + ": " + c.Message
}
