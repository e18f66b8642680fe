// Package address has the commands kubectl ipam address and kubectl ipam history.
package address

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// New makes kubectl ipam address.
func New(s *session.Session) *cobra.Command {
	return session.Group(&cobra.Command{
		Use:     "address",
		Aliases: []string{"addresses"},
		Short:   "Show the state of an address, and its holder",
		Long:    `Show whether an address or a block is free, and which claim holds it.`,
		Example: `  kubectl ipam address show 10.64.3.7`,
	}, newShow(s))
}

func newShow(s *session.Session) *cobra.Command {
	out := &output.Printer{}
	cmd := &cobra.Command{
		Use:     "show IP",
		Aliases: []string{"get", "describe"},
		Short:   "Show the state of an address or a block, and its holder",
		Long: `Show the state of an address or a block:
  allocated or retained, with the claim, its pool and class, and since when;
  reserved or excluded by its pool;
  free, or cooling after its release;
  or in no pool.
Only admins of the platform see holders in other workspaces.

The exit code is 4 for a block in no pool that you see, or if it may be that of a holder that
you do not see.`,
		Example: `  # list the holders of all blocks in a prefix
  kubectl ipam address show 10.64.0.0/16`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return show(cmd.Context(), s, args[0], out) },
	}
	out.AddFlags(cmd)
	return cmd
}

// seen is a block with its visible holders, and the visible pools.
type seen struct {
	*session.View
	block             netip.Prefix
	pools             []ipamv1alpha1.IPPool
	allocations, held []ipamv1alpha1.IPAllocation
}

func show(ctx context.Context, s *session.Session, text string, out *output.Printer) error {
	block, err := facts.ParseBlock(text)
	if err != nil {
		return err
	}
	found, err := look(ctx, s, block)
	if err != nil {
		return err
	}
	if !out.Given() {
		found.warn(s)
	}
	if len(found.held) == 0 {
		if err := found.sayUnheld(s, out.Given()); err != nil {
			return err
		}
	}
	if out.Given() {
		return out.Print(s.Out, &ipamv1alpha1.IPAllocationList{Items: found.held}, s.Now)
	}
	for i := range found.held {
		found.describe(s, &found.held[i])
	}
	return nil
}

// look reads the visible holders of a block, and the visible pools.
func look(ctx context.Context, s *session.Session, block netip.Prefix) (found seen, err error) {
	found.block = block
	if found.View, err = s.View(ctx); err != nil {
		return found, err
	}
	if found.allocations, err = found.Allocations(ctx); err != nil {
		return found, err
	}
	found.held = overlapping(found.allocations, block)
	found.pools, err = found.Pools(ctx)
	return found, exit.IgnoreUnseen(err)
}

// warn warns of the pools that have some of the block, and share addresses with a pool of another workspace: the block
// may have a second holder.
func (f *seen) warn(s *session.Session) {
	for i := range f.pools {
		pool := &f.pools[i]
		said := facts.Overlapping(pool)
		cidr, invalid := netip.ParsePrefix(pool.Status.AllocatedCIDR)
		if said != "" && invalid == nil && cidr.Overlaps(f.block) {
			screen.Line(s.ErrOut, "%s pool %s: %s", s.ErrPaint.Yellow("warning:"), space.In(pool.Name, f.Workspace(pool)), said)
		}
	}
}

// sayUnheld prints the state of the block in each pool. It prints to stderr if data goes to stdout, or if a state is
// not known.
func (f *seen) sayUnheld(s *session.Session, data bool) error {
	states, err := unheld(f.View, f.block, f.pools, f.allocations)
	say := s.Out
	if err != nil || data {
		say = s.ErrOut
	}
	for _, state := range states {
		screen.Line(say, "%s", state)
	}
	return err
}

// overlapping returns the allocations that have some addresses of a block.
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

// unheld returns the state of a block without a visible holder in each visible pool. If a child pool has all of the
// block, it answers in place of its parent. It is an error if no pool has the block, or if the block may have a holder
// that the caller does not see.
func unheld(
	r *session.View, block netip.Prefix, pools []ipamv1alpha1.IPPool, allocations []ipamv1alpha1.IPAllocation,
) ([]space.State, error) {
	var found []space.State
	for _, pool := range r.Visible(pools, allocations) {
		if state, ok := pool.StateOf(block); ok {
			found = append(found, state)
		}
	}
	if len(found) == 0 {
		return nil, exit.Fail(exit.NotFound, "", "%s is in no pool that you may see", block)
	}
	if slices.ContainsFunc(found, func(state space.State) bool { return !state.Known() }) {
		return found, exit.Fail(exit.NotFound, r.Unrecorded(block.String()), "you see no holder of %s", block)
	}
	return found, nil
}

// describe shows an allocation. If the caller sees its pool, the scope shown includes that of the pool, because several
// networks may have the same addresses.
func (f *seen) describe(s *session.Session, a *ipamv1alpha1.IPAllocation) {
	r, page, scope := f.View, s.Page(), maps.Clone(a.Spec.Scope)
	for i := range f.pools {
		if p := &f.pools[i]; p.Name == a.Spec.PoolRef.Name && r.Workspace(p) == r.Owner(a, a.Spec.PoolRef) {
			scope = maps.Clone(p.Spec.Scope)
			maps.Copy(scope, a.Spec.Scope)
		}
	}
	page.Line("Block", a.Status.AllocatedCIDR)
	page.Line("Scope", facts.Scope(scope))
	state := space.WordAllocated
	if a.Spec.ClaimRef == nil {
		state = space.WordRetained
	}
	page.Line("State", state)
	page.Line("Holder", space.HoldingOf(a).Holder)
	page.Line("Workspace", cmp.Or(r.Workspace(a), r.Path))
	page.Line("Pool", space.In(a.Spec.PoolRef.Name, r.Owner(a, a.Spec.PoolRef)))
	page.Line("Class", a.Spec.ClassName)
	page.Line("Reclaim", string(a.Spec.ReclaimPolicy))
	page.Line("Owner", space.OwnerOf(a.Spec.OwnerRef))
	page.Line("Since", a.CreationTimestamp.UTC().Format("2006-01-02 15:04:05 MST"))
}
