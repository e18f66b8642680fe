package page

import (
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// claimsView is the page of a list of claims.
type claimsView struct {
	paged[claimRow]
	// Reason is the reason of the claims that are shown; empty: all claims are.
	Reason string
	// Filter is a text. The claims that are shown have it in a name, class, scope or phase.
	Filter string
	// Columns are the headings of the list. Each has a link that sorts the list by it.
	Columns []column
}

// column is the heading of a column by which a list can be sorted.
type column struct {
	Title, Link string
	// Sorted is the ARIA word for how the rows are sorted by this column: ascending, descending, or none.
	Sorted string
}

// orders are the columns by which claims can be sorted, and their words in the query of a URL.
var orders = []struct {
	title, word string
	compare     func(a, b claimRow) int
}{
	{"Claim", "claim", byName},
	{"Block", "block", func(a, b claimRow) int { return a.block().Compare(b.block()) }},
	{"Asks for", "asks", func(a, b claimRow) int { return cmp.Compare(a.Asks(), b.Asks()) }},
	{"Pool", "pool", func(a, b claimRow) int { return cmp.Compare(a.Pool, b.Pool) }},
	{"Owner", "owner", func(a, b claimRow) int { return cmp.Compare(a.Owner(), b.Owner()) }},
	{"Age", "age", func(a, b claimRow) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) }},
}

func byName(a, b claimRow) int {
	return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name))
}

// sorted sorts claims as a request asks, or else by name, and returns the headings.
func sorted(r *http.Request, rows []claimRow) []column {
	word, down := strings.CutPrefix(r.URL.Query().Get("sort"), "-")
	columns := make([]column, 0, len(orders))
	slices.SortFunc(rows, byName)
	for _, order := range orders {
		query, c := r.URL.Query(), column{Title: order.title, Sorted: "none"}
		query.Del("page")
		query.Set("sort", order.word)
		switch {
		case word != order.word:
		case down:
			c.Sorted = "descending"
			slices.SortStableFunc(rows, func(a, b claimRow) int { return order.compare(b, a) })
		default:
			c.Sorted = "ascending"
			query.Set("sort", "-"+order.word)
			slices.SortStableFunc(rows, order.compare)
		}
		c.Link = "/claims?" + query.Encode()
		columns = append(columns, c)
	}
	return columns
}

// block returns the block of the claim. Without a block it returns the zero Prefix, which sorts first.
func (c claimRow) block() netip.Prefix {
	block, _ := netip.ParsePrefix(c.Status.AllocatedCIDR)
	return block
}

// claimRow is a claim, with links to its block and its pool; each link may be empty.
type claimRow struct {
	waiting
	Pool, PoolLink, BlockLink string
}

// waiting is a claim with the reason why it has no block.
type waiting struct {
	Claim
	// Reason is empty if the claim has a block.
	Reason, Message, Remedy string
	// Stalled is set if the claim can never get a block as it is written.
	Stalled bool
}

// group has the claims that have no block for the same reason, the oldest first.
type group struct {
	Reason  string
	Stalled bool
	Claims  []waiting
	Link    string
}

func (s *server) claims(r *http.Request, snapshot *Snapshot) (view, error) {
	data := claimsView{Reason: r.URL.Query().Get("reason"), Filter: strings.TrimSpace(r.URL.Query().Get("filter"))}
	var rows []claimRow
	for _, c := range snapshot.Claims {
		if row := rowOf(snapshot, c); (data.Reason == "" || row.Reason == data.Reason) &&
			row.matches(strings.ToLower(data.Filter)) {
			rows = append(rows, row)
		}
	}
	data.Columns = sorted(r, rows)
	data.paged = paging(r, rows)
	return view{Template: "claims.html", Title: "Claims", Data: data}, nil
}

// matches reports whether the row of a claim, or its phase, has a text. The text must be in lower case.
func (c claimRow) matches(text string) bool {
	for _, shown := range []string{
		c.Holder(), facts.Class(c.IPClaim), c.Scope(), string(c.Status.Phase), c.Status.AllocatedCIDR, c.Pool,
		c.Owner(), c.Reason,
	} {
		if strings.Contains(strings.ToLower(shown), text) {
			return true
		}
	}
	return false
}

func rowOf(snapshot *Snapshot, c Claim) claimRow {
	row := claimRow{waiting: waitingFor(c)}
	ref := facts.Pool(c.IPClaim)
	if ref.Name == "" {
		return row
	}
	workspace := c.Workspace
	if in := facts.Workspace(ref); in != "" {
		workspace = snapshot.own(in)
	}
	row.Pool = space.In(ref.Name, workspace)
	p, ok := snapshot.pool(workspace, ref.Name)
	if !ok {
		return row
	}
	row.PoolLink = p.Path()
	if block, err := netip.ParsePrefix(c.Status.AllocatedCIDR); err == nil && p.Window().IsValid() {
		row.BlockLink = p.AtBlock(block)
	}
	return row
}

// waitingOf returns the claims without a block, the oldest first.
func waitingOf(s *Snapshot) []waiting {
	var all []waiting
	for _, c := range s.Claims {
		if c.Waits() {
			all = append(all, waitingFor(c))
		}
	}
	slices.SortStableFunc(all, func(a, b waiting) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Workspace, b.Workspace),
			cmp.Compare(a.Name, b.Name))
	})
	return all
}

func waitingFor(c Claim) waiting {
	now := facts.AnswerOf(c.IPClaim)
	switch said := now.Allocated; {
	case !c.Waits():
		return waiting{Claim: c}
	case said == nil:
		return waiting{Claim: c, Reason: now.Reason()}
	default:
		return waiting{Claim: c, Reason: said.Reason, Message: said.Message, Remedy: now.Remedy, Stalled: now.Stalled}
	}
}

// groupsOf groups claims by their reasons, the largest group first.
func groupsOf(all []waiting) []group {
	var groups []group
	for _, w := range all {
		at := slices.IndexFunc(groups, func(g group) bool { return g.Reason == w.Reason && g.Stalled == w.Stalled })
		if at < 0 {
			at = len(groups)
			groups = append(groups,
				group{Reason: w.Reason, Stalled: w.Stalled, Link: "/claims?" + url.Values{"reason": {w.Reason}}.Encode()})
		}
		groups[at].Claims = append(groups[at].Claims, w)
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(len(b.Claims), len(a.Claims)) })
	return groups
}

// Oldest returns the claim of the group that has waited longest.
func (g group) Oldest() waiting { return g.Claims[0] }

// Others returns the number of claims in the group beside the oldest.
func (g group) Others() string { return strconv.Itoa(len(g.Claims) - 1) }

// Holder names the claim. It adds the workspace if that is not the current one.
func (w waiting) Holder() string { return space.In(w.Namespace+"/"+w.Name, w.Workspace) }

// Scope lists the objects that the claim is for.
func (w waiting) Scope() string { return facts.Scope(w.Spec.Scope) }

// Owner names the object that uses the block; empty if the claim names none.
func (w waiting) Owner() string { return space.OwnerOf(w.Spec.OwnerRef) }

// Asks says which block the claim asks for.
func (w waiting) Asks() string {
	asks := cmp.Or(ipamv1alpha1.RequestedColumn(w.Spec), "a block")
	if w.Spec.Target == ipamv1alpha1.TargetScopeRange {
		asks = strings.TrimSpace("the range " + ipamv1alpha1.RequestedColumn(w.Spec))
	}
	switch class := facts.Class(w.IPClaim); {
	case class != "":
		return asks + " of class " + class
	case w.Spec.PoolRef != nil:
		return asks + " of pool " + w.Spec.PoolRef.Name
	default:
		return asks
	}
}
