package main

import (
	"cmp"
	"context"
	"net/netip"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

func newAddressShow(s *session) *cobra.Command {
	out := &output{}
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
		RunE: func(cmd *cobra.Command, args []string) error { return s.addressShow(cmd.Context(), args[0], out) },
	}
	out.addFlags(cmd)
	return cmd
}

func (s *session) addressShow(ctx context.Context, text string, out *output) error {
	if err := out.validate(); err != nil {
		return err
	}
	block, err := parseBlock(text)
	if err != nil {
		return err
	}
	r, err := s.reach(ctx)
	if err != nil {
		return err
	}
	allocations, err := r.allocations(ctx)
	if err != nil {
		return err
	}
	held := overlapping(allocations, block)
	if len(held) == 0 {
		return s.unheld(ctx, r, block, allocations)
	}
	if out.given() {
		return out.print(s.Out, &ipamv1alpha1.IPAllocationList{Items: held}, s.now)
	}
	for i := range held {
		describeAllocation(s, r, &held[i])
	}
	return nil
}

// parseBlock reads an address or a CIDR.
func parseBlock(text string) (netip.Prefix, error) {
	if block, err := netip.ParsePrefix(text); err == nil {
		return unmapped(block).Masked(), nil
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, usagef("%q is no address; write one such as 192.0.2.7, or a block such as 192.0.2.0/28", text)
	}
	return unmapped(netip.PrefixFrom(ip, ip.BitLen())), nil
}

// unmapped is a block of IPv4 that is written in IPv6 form, such as ::ffff:10.8.1.7, as IPv4.
func unmapped(block netip.Prefix) netip.Prefix {
	const mapped = 96 // bits before the IPv4 address
	if !block.Addr().Is4In6() || block.Bits() < mapped {
		return block
	}
	return netip.PrefixFrom(block.Addr().Unmap(), block.Bits()-mapped)
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
func (s *session) unheld(ctx context.Context, r *reach, block netip.Prefix, allocations []ipamv1alpha1.IPAllocation) error {
	pools, err := r.pools(ctx)
	if ignoreUnseen(err) != nil {
		return err
	}
	found := statesOf(r, block, pools, allocations)
	if len(found) == 0 {
		return fail(exitNotFound, "", "%s is in no pool that you may see", block)
	}
	for _, state := range found {
		s.say("%s", state)
	}
	return fail(exitNotFound, "", "you see no holder of %s", block)
}

func describeAllocation(s *session, r *reach, a *ipamv1alpha1.IPAllocation) {
	page := sheet{w: s.Out, paint: s.out}
	page.line("Block", a.Status.AllocatedCIDR)
	page.line("State", stateOf(a))
	page.line("Holder", space.HoldingOf(a).Holder)
	page.line("Workspace", cmp.Or(r.workspace(a), r.path))
	page.line("Pool", space.In(a.Spec.PoolRef.Name, r.owner(a, a.Spec.PoolRef)))
	page.line("Class", a.Spec.ClassName)
	page.line("Reclaim", string(a.Spec.ReclaimPolicy))
	page.line("Owner", space.OwnerOf(a.Spec.OwnerRef))
	page.line("Since", a.CreationTimestamp.UTC().Format("2006-01-02 15:04:05 MST"))
}
