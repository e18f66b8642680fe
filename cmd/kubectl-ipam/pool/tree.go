package pool

import (
	"cmp"
	"context"
	"io"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/reach"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

func newTree(s *session.Session) *cobra.Command {
	out := &output.Printer{}
	cmd := &cobra.Command{
		Use:   "tree [NAME]",
		Short: "Draw the pools as a tree, and how full each is",
		Long: `Draw the pools of this workspace as a tree, each child pool below its parent, and how full
each is. Admins of the platform also see the pools of all tenants.`,
		Example: `  # draw one pool and those below it
  kubectl ipam pool tree lab`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return tree(cmd.Context(), s, args, out) },
	}
	out.AddFlags(cmd)
	session.CompleteArgs(s, cmd, session.PoolNames)
	return cmd
}

func tree(ctx context.Context, s *session.Session, args []string, out *output.Printer) error {
	r, err := reach.Of(ctx, s)
	if err != nil {
		return err
	}
	pools, err := r.Pools(ctx)
	if err != nil {
		return err
	}
	if err := countChildren(ctx, r, pools); err != nil {
		return err
	}
	return showTree(s, r, pools, args, out)
}

// showTree prints all pools, or one and those below it.
func showTree(s *session.Session, r *reach.View, pools []ipamv1alpha1.IPPool, args []string, out *output.Printer) error {
	roots := plant(r, pools)
	if len(args) > 0 {
		if roots = nodesNamed(roots, args[0]); len(roots) == 0 {
			return exit.Missing("ippools", args[0])
		}
		pools = nil
		for _, n := range allNodes(roots) {
			pools = append(pools, *n.pool)
		}
	}
	if out.Given() {
		return out.Print(s.Out, &ipamv1alpha1.IPPoolList{Items: pools}, s.Now)
	}
	if len(roots) == 0 {
		s.Say("there are no pools in this workspace; claims by class use those of the platform")
	}
	drawTree(s.Out, s.Paint, roots)
	return nil
}

// countChildren waits until the figures of the pools of this workspace count what is carved
// from them.
func countChildren(ctx context.Context, r *reach.View, pools []ipamv1alpha1.IPPool) error {
	carved := r.Holdings(pools, nil)
	for i := range pools {
		if r.Workspace(&pools[i]) != "" {
			continue
		}
		if err := settled(ctx, r, &pools[i], carved[reach.Key{Name: pools[i].Name}], func(unseen int) bool { return unseen >= 0 }); err != nil {
			return err
		}
	}
	return nil
}

// node is a pool, with those carved from it.
type node struct {
	pool      *ipamv1alpha1.IPPool
	workspace string // empty for the current one
	children  []*node
}

// plant puts pools below their parents, and those whose parent is not seen beside
// the root pools; all by address.
func plant(r *reach.View, pools []ipamv1alpha1.IPPool) []*node {
	known, nodes := map[reach.Key]*node{}, make([]*node, len(pools))
	for i := range pools {
		n := &node{pool: &pools[i], workspace: r.Workspace(&pools[i])}
		known[reach.Key{Workspace: n.workspace, Name: n.pool.Name}], nodes[i] = n, n
	}
	parent := func(n *node) (_ *node, ok bool) {
		ref := n.pool.Spec.ParentPoolRef
		if ref == nil {
			return nil, false
		}
		above, ok := known[reach.Key{Workspace: r.Owner(n.pool, *ref), Name: ref.Name}]
		return above, ok
	}
	var roots []*node
	for _, n := range nodes {
		above, ok := parent(n)
		if !ok || descends(n, parent) {
			roots = append(roots, n)
			continue
		}
		above.children = append(above.children, n)
	}
	for _, n := range nodes {
		slices.SortFunc(n.children, byAddress)
	}
	slices.SortFunc(roots, byAddress)
	return roots
}

// descends reports whether a pool is one of its own ancestors. Such pools never get a block, and
// may be created all the same.
func descends(n *node, parent func(*node) (*node, bool)) bool {
	seen := map[*node]bool{}
	for above, ok := parent(n); ok && !seen[above]; above, ok = parent(above) {
		seen[above] = true
	}
	return seen[n]
}

func byAddress(a, b *node) int {
	// A pool without a block has the zero Prefix, and comes first.
	left, _ := netip.ParsePrefix(facts.CIDR(a.pool))
	right, _ := netip.ParsePrefix(facts.CIDR(b.pool))
	return cmp.Or(left.Compare(right), cmp.Compare(a.workspace, b.workspace), cmp.Compare(a.pool.Name, b.pool.Name))
}

// nodesNamed returns the nodes of that name in the current workspace.
func nodesNamed(roots []*node, name string) []*node {
	return slices.DeleteFunc(allNodes(roots), func(n *node) bool { return n.pool.Name != name || n.workspace != "" })
}

// allNodes returns nodes, each followed by those below it.
func allNodes(nodes []*node) []*node {
	var all []*node
	for _, n := range nodes {
		all = append(append(all, n), allNodes(n.children)...)
	}
	return all
}

// branch is a line of the tree.
type branch struct {
	lead string
	*node
}

func (b branch) label() string { return b.lead + legible.Text(space.In(b.pool.Name, b.workspace)) }

// drawTree writes a line for each pool.
func drawTree(w io.Writer, p screen.Paint, roots []*node) {
	lines := make([]branch, 0, len(roots))
	for _, root := range roots {
		output.Walk(root, func(n *node) []*node { return n.children }, func(lead string, n *node) { lines = append(lines, branch{lead, n}) })
	}
	nameWidth, cidrWidth := 0, 0
	for _, line := range lines {
		nameWidth = max(nameWidth, utf8.RuneCountInString(line.label()))
		cidrWidth = max(cidrWidth, len(facts.CIDR(line.pool)))
	}
	for _, line := range lines {
		said := line.label() + strings.Repeat(" ", nameWidth-utf8.RuneCountInString(line.label()))
		screen.Line(w, "%s  %-*s  %s  %s", said, cidrWidth, facts.CIDR(line.pool), bar(p, line.pool), p.Dim(remark(line)))
	}
}

// remark is what there is to say of a pool beside its figures.
func remark(b branch) string {
	var remarks []string
	if free := facts.LargestFree(b.pool); free != "" {
		remarks = append(remarks, "largest free "+free)
	}
	if cooling := space.Cooling(b.pool.Status.Capacity); cooling.Sign() > 0 {
		remarks = append(remarks, cooling.String()+" cooling")
	}
	if reason := facts.Reason(b.pool.Status.Conditions); reason != string(ipamv1alpha1.ReasonAllocationSucceeded) && reason != "" {
		remarks = append(remarks, reason)
	}
	if b.lead == "" && b.pool.Spec.ParentPoolRef != nil {
		remarks = append(remarks, "carved from "+facts.Parent(b.pool))
	}
	if scope := facts.Scope(b.pool.Spec.Scope); scope != "" {
		remarks = append(remarks, "for "+scope)
	}
	if made := madeBy(b.pool.Spec); made != "" {
		remarks = append(remarks, "made by "+made)
	}
	if len(b.pool.Spec.ClassNames) > 0 {
		remarks = append(remarks, "backs "+strings.Join(b.pool.Spec.ClassNames, ", "))
	}
	return strings.Join(remarks, "; ")
}
