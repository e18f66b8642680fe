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
	r, err := s.View(ctx)
	if err != nil {
		return err
	}
	pools, err := r.Pools(ctx)
	if err != nil {
		return err
	}
	seen := r.Visible(pools, nil)
	for _, pool := range seen { // the figures of each have to count the pools that are carved from it
		if err := settled(ctx, r, pool, func(unseen int) bool { return unseen >= 0 }); err != nil {
			return err
		}
	}
	return showTree(s, plant(r, seen), pools, args, out)
}

// showTree prints all pools, or a pool and those below it.
func showTree(
	s *session.Session, roots []*node, pools []ipamv1alpha1.IPPool, args []string, out *output.Printer,
) error {
	if len(args) > 0 {
		if roots = nodesNamed(roots, args[0]); len(roots) == 0 {
			return exit.Missing("ippools", args[0])
		}
		pools = nil
		for _, n := range allNodes(roots) {
			pools = append(pools, *n.Object)
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

// node is a pool in the tree, with its parent, if the caller sees that, and with the pools that are carved from it.
type node struct {
	*space.Pool
	parent   *node
	children []*node
}

// plant builds the tree, sorted by address. A pool whose parent the caller does not see is a root, too.
func plant(r *session.View, pools []*space.Pool) []*node {
	known, nodes := map[[2]string]*node{}, make([]*node, 0, len(pools))
	for _, pool := range pools {
		if pool.Object != nil {
			n := &node{Pool: pool}
			known[[2]string{n.Workspace, n.Name}], nodes = n, append(nodes, n)
		}
	}
	for _, n := range nodes {
		if ref := n.Object.Parent(); ref != nil {
			n.parent = known[[2]string{r.Owner(n.Object, *ref), ref.Name}]
		}
	}
	var roots []*node
	for _, n := range nodes {
		if n.parent == nil || n.descends() {
			roots = append(roots, n)
			continue
		}
		n.parent.children = append(n.parent.children, n)
	}
	for _, n := range nodes {
		slices.SortFunc(n.children, byAddress)
	}
	slices.SortFunc(roots, byAddress)
	return roots
}

// descends reports whether a pool is one of its own ancestors. Such pools can be created, and never get a block.
func (n *node) descends() bool {
	seen := map[*node]bool{}
	for above := n.parent; above != nil && !seen[above]; above = above.parent {
		seen[above] = true
	}
	return seen[n]
}

func byAddress(a, b *node) int {
	// A pool without a block has the zero Prefix, and comes first.
	left, _ := netip.ParsePrefix(facts.CIDR(a.Object))
	right, _ := netip.ParsePrefix(facts.CIDR(b.Object))
	return cmp.Or(left.Compare(right), cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Name, b.Name))
}

// nodesNamed returns the nodes of this name in the current workspace.
func nodesNamed(roots []*node, name string) []*node {
	return slices.DeleteFunc(allNodes(roots), func(n *node) bool { return n.Name != name || n.Workspace != "" })
}

// allNodes returns the nodes, each followed by the nodes below it.
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

func (b branch) label() string { return b.lead + legible.Text(b.Title()) }

// branches returns the line of a pool, which begins with lead, and the lines below it, which begin with rest.
func branches(n *node, lead, rest string) []branch {
	lines := append(make([]branch, 0, 1+len(n.children)), branch{lead, n})
	for i, child := range n.children {
		sign, below := "├─ ", "│  "
		if i == len(n.children)-1 {
			sign, below = "└─ ", "   "
		}
		lines = append(lines, branches(child, rest+sign, rest+below)...)
	}
	return lines
}

// drawTree writes a line for each pool.
func drawTree(w io.Writer, p screen.Paint, roots []*node) {
	lines := make([]branch, 0, len(roots))
	for _, root := range roots {
		lines = append(lines, branches(root, "", "")...)
	}
	nameWidth, cidrWidth := 0, 0
	for _, line := range lines {
		nameWidth = max(nameWidth, utf8.RuneCountInString(line.label()))
		cidrWidth = max(cidrWidth, len(facts.CIDR(line.Object)))
	}
	for _, line := range lines {
		said := line.label() + strings.Repeat(" ", nameWidth-utf8.RuneCountInString(line.label()))
		screen.Line(w, "%s  %-*s  %s  %s", said, cidrWidth, facts.CIDR(line.Object), bar(p, line.Object), p.Dim(remark(line)))
	}
}

// remark returns what to say about a pool beside its figures.
func remark(b branch) string {
	var remarks []string
	if free := facts.LargestFree(b.Object); free != "" {
		remarks = append(remarks, "largest free "+free)
	}
	if cooling := space.Cooling(b.Object.Status.Capacity); cooling.Sign() > 0 {
		remarks = append(remarks, cooling.String()+" cooling")
	}
	if reason := facts.Unready(b.Object.Status.Conditions); reason != "" {
		remarks = append(remarks, reason)
	}
	if parent := facts.Parent(b.Object); b.lead == "" && parent != "" {
		remarks = append(remarks, "carved from "+parent)
	}
	if class := b.Object.Spec.ParentClassName; class != "" {
		remarks = append(remarks, "by class "+class)
	}
	if scope := facts.Scope(b.Object.Spec.Scope); scope != "" {
		remarks = append(remarks, "for "+scope)
	}
	if made := madeBy(b.Object.Spec); made != "" {
		remarks = append(remarks, "made by "+made)
	}
	if len(b.Object.Spec.ClassNames) > 0 {
		remarks = append(remarks, "backs "+strings.Join(b.Object.Spec.ClassNames, ", "))
	}
	return strings.Join(remarks, "; ")
}
