// Package network has the command kubectl ipam network.
package network

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// New makes kubectl ipam network.
func New(s *session.Session) *cobra.Command {
	return session.Group(&cobra.Command{
		Use:     "network",
		Aliases: []string{"networks"},
		Short:   "List networks, the scopes that pools and claims are for",
		Long: `A network is a scope: the objects that claims name for the roles of their class, such as
network=vpc-1. Classes give each network a pool, or an address space of its own. The first
claim that names a network makes it, and kubectl ipam claim create --target range holds it.`,
		Example: `  kubectl ipam network list`,
	}, newList(s))
}

func newList(s *session.Session) *cobra.Command {
	out, scope := &output.Printer{}, ipamv1alpha1.Scope{}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls", "get"},
		Short:   "List networks with their CIDRs, who holds them, and how many claims are inside",
		Long: `List the networks of pools and claims that you can read, in all namespaces: their CIDRs, the
claims that hold their ranges, how many claims are inside, and how many of those wait for
a block. Those of a network inside another one, such as network=vpc-1,location=ams, are
inside both. Platform admins see those of all tenants.`,
		Example: `  # list a network, and those inside
  kubectl ipam network list --scope network=vpc-1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := s.View(cmd.Context())
			if err != nil {
				return err
			}
			return list(cmd.Context(), s, r, out, scope)
		},
	}
	out.AddFlags(cmd)
	cmd.Flags().Var(field.Scope(&scope), "scope",
		"List only this network and those inside, as ROLE=NAME, such as network=vpc-1; several: with commas")
	return cmd
}

// network is a scope in a workspace, as -o prints it.
type network struct {
	// Network is the scope, written as --scope takes it.
	Network string `json:"network"`
	// Workspace is the workspace of the network; empty for the current one.
	Workspace string   `json:"workspace,omitempty"`
	CIDRs     []string `json:"cidrs,omitempty"`
	Pools     []string `json:"pools,omitempty"`
	// HeldBy names the claims that hold ranges of the network.
	HeldBy  []string `json:"heldBy,omitempty"`
	Claims  int      `json:"claims"`
	Waiting int      `json:"waiting"`

	scope ipamv1alpha1.Scope
}

func list(
	ctx context.Context, s *session.Session, r *session.View, out *output.Printer, within ipamv1alpha1.Scope,
) error {
	pools, err := r.Pools(ctx)
	if exit.IgnoreUnseen(err) != nil {
		return err
	}
	claims, err := r.Claims(ctx)
	if err != nil {
		return err
	}
	networks := slices.DeleteFunc(networksOf(r, pools, claims), func(n network) bool {
		return !facts.Inside(n.scope, within)
	})
	if len(networks) == 0 && !out.Given() {
		s.Say("there are no networks; a claim with a scope makes one: " +
			"kubectl ipam claim create NAME --class CLASS --scope network=NAME --target range")
		return nil
	}
	t := output.NewTable("NETWORK", "WORKSPACE", "CIDR", "HELD BY", "CLAIMS", "WAITING", "pools")
	for _, n := range networks {
		t.Rows = append(t.Rows, output.Row(nil, n.Network, n.Workspace, strings.Join(n.CIDRs, ","),
			strings.Join(n.HeldBy, ","), fmt.Sprint(n.Claims), fmt.Sprint(n.Waiting), strings.Join(n.Pools, ",")))
	}
	output.HideEmpty(t, "WORKSPACE")
	return out.PrintReport(s.Out, map[string]any{"networks": networks}, t)
}

// found collects networks by workspace and scope.
type found map[[2]string]*network

func (f found) of(workspace string, scope ipamv1alpha1.Scope) *network {
	name := field.Scope(&scope).String()
	key := [2]string{workspace, name}
	if f[key] == nil {
		f[key] = &network{Network: name, Workspace: workspace, scope: scope}
	}
	return f[key]
}

// networksOf returns the scopes of pools, and those of claims in other pools, such as pools of another workspace. A
// network comes before those inside it.
func networksOf(r *session.View, pools []ipamv1alpha1.IPPool, claims []ipamv1alpha1.IPClaim) []network {
	networks, scopes := found{}, map[[2]string]ipamv1alpha1.Scope{}
	for i := range pools {
		p := &pools[i]
		if len(p.Spec.Scope) == 0 {
			continue
		}
		scopes[[2]string{r.Workspace(p), p.Name}] = p.Spec.Scope
		n := networks.of(r.Workspace(p), p.Spec.Scope)
		n.Pools = append(n.Pools, p.Name)
		n.holds(p.Status.AllocatedCIDR)
	}
	isRange := func(c *ipamv1alpha1.IPClaim) bool { return c.Spec.Target == ipamv1alpha1.TargetScopeRange }
	for i := range claims {
		c := &claims[i]
		if len(c.Spec.Scope) == 0 {
			continue
		}
		ref := facts.Pool(c)
		scope, seen := scopes[[2]string{r.Owner(c, ref), ref.Name}]
		switch {
		case isRange(c) && seen:
			n := networks.of(r.Workspace(c), scope)
			n.HeldBy = append(n.HeldBy, facts.Name(c))
		case isRange(c):
			n := networks.of(r.Workspace(c), c.Spec.Scope)
			n.HeldBy = append(n.HeldBy, facts.Name(c))
			n.holds(c.Status.AllocatedCIDR)
		case !seen:
			networks.of(r.Workspace(c), c.Spec.Scope)
		}
	}
	all := make([]network, 0, len(networks))
	for _, n := range networks {
		for i := range claims {
			c := &claims[i]
			if isRange(c) || r.Workspace(c) != n.Workspace || !facts.Inside(c.Spec.Scope, n.scope) {
				continue
			}
			n.Claims++
			if c.Status.AllocatedCIDR == "" {
				n.Waiting++
			}
		}
		slices.Sort(n.CIDRs)
		slices.Sort(n.HeldBy)
		all = append(all, *n)
	}
	slices.SortFunc(all, func(a, b network) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Network, b.Network))
	})
	return all
}

// holds adds a CIDR of the network, once.
func (n *network) holds(block string) {
	if block != "" && !slices.Contains(n.CIDRs, block) {
		n.CIDRs = append(n.CIDRs, block)
	}
}
