package address

import (
	"cmp"
	"context"
	"net/netip"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/reach"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

func newShow(s *session.Session) *cobra.Command {
	out := &output.Printer{}
	cmd := &cobra.Command{
		Use:   "show IP",
		Short: "Show the state of an address or a block, and its holder",
		Long: `Show the state of an address or a block:
  allocated or retained, with the claim, its pool and class, and since when;
  reserved or excluded by its pool;
  free, or cooling after its release;
  or in no pool.
Only admins of the platform see holders in other workspaces.

The exit code is 4 when you see no holder.`,
		Example: `  kubectl ipam address show 10.64.3.7

  # list the holders of all blocks in a prefix
  kubectl ipam address show 10.64.0.0/16`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return show(cmd.Context(), s, args[0], out) },
	}
	out.AddFlags(cmd)
	return cmd
}

func show(ctx context.Context, s *session.Session, text string, out *output.Printer) error {
	if err := out.Validate(); err != nil {
		return err
	}
	block, err := facts.ParseBlock(text)
	if err != nil {
		return err
	}
	r, err := reach.Of(ctx, s)
	if err != nil {
		return err
	}
	allocations, err := r.Allocations(ctx)
	if err != nil {
		return err
	}
	held := overlapping(allocations, block)
	if len(held) == 0 {
		return unheld(ctx, s, r, block, allocations)
	}
	if out.Given() {
		return out.Print(s.Out, &ipamv1alpha1.IPAllocationList{Items: held}, s.Now)
	}
	for i := range held {
		describeAllocation(s, r, &held[i])
	}
	return nil
}

// overlapping are the allocations that hold some of a block.
func overlapping(allocations []ipamv1alpha1.IPAllocation, block netip.Prefix) []ipamv1alpha1.IPAllocation {
	var held []ipamv1alpha1.IPAllocation
	for i := range allocations {
		given, err := netip.ParsePrefix(allocations[i].Status.AllocatedCIDR)
		if err == nil && given.Overlaps(block) {
			held = append(held, allocations[i])
		}
	}
	return held
}

// unheld describes a block without a visible holder: what each pool that has it makes of it.
func unheld(ctx context.Context, s *session.Session, r *reach.View, block netip.Prefix, allocations []ipamv1alpha1.IPAllocation) error {
	pools, err := r.Pools(ctx)
	if exit.IgnoreUnseen(err) != nil {
		return err
	}
	found := statesOf(r, block, pools, allocations)
	if len(found) == 0 {
		return exit.Fail(exit.NotFound, "", "%s is in no pool that you may see", block)
	}
	for _, state := range found {
		s.Say("%s", state)
	}
	return exit.Fail(exit.NotFound, "", "you see no holder of %s", block)
}

func describeAllocation(s *session.Session, r *reach.View, a *ipamv1alpha1.IPAllocation) {
	page := s.Page()
	page.Line("Block", a.Status.AllocatedCIDR)
	page.Line("State", stateOf(a))
	page.Line("Holder", space.HoldingOf(a).Holder)
	page.Line("Workspace", cmp.Or(r.Workspace(a), r.Path))
	page.Line("Pool", space.In(a.Spec.PoolRef.Name, r.Owner(a, a.Spec.PoolRef)))
	page.Line("Class", a.Spec.ClassName)
	page.Line("Reclaim", string(a.Spec.ReclaimPolicy))
	page.Line("Owner", space.OwnerOf(a.Spec.OwnerRef))
	page.Line("Since", a.CreationTimestamp.UTC().Format("2006-01-02 15:04:05 MST"))
}
