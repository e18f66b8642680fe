package pool

import (
	"context"
	"net/netip"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// next is kubectl ipam pool next.
type next struct {
	*session.Session
	report    output.Printer
	workspace string
	length    int32
	count     int
	scope     ipamv1alpha1.Scope
}

func newNext(s *session.Session) *cobra.Command {
	o := &next{Session: s}
	cmd := &cobra.Command{
		Use:   "next NAME",
		Short: "Show the next free blocks of a pool, and allocate none",
		Long: `Show the blocks that the next claims of a length would get from a pool, by the strategy of
the pool. Nothing is allocated, and another claim may come first. A block of another
workspace that you cannot see may be shown as free.

claim create --dry-run=server asks the controller instead, and also works with a class.`,
		Example: `  # show the next five free /28
  kubectl ipam pool next lab --length 28 --count 5

  # show the next free /28 of one network, in a pool that gives each network the same addresses
  kubectl ipam pool next lab --length 28 --scope network=vpc-1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.report.AddFlags(cmd)
	cmd.Flags().StringVar(&o.workspace, "workspace", "",
		"Workspace of the pool, such as root:net; empty is the current one")
	cmd.Flags().Var(field.Length(&o.length), "length",
		"Prefix length of the blocks, such as 28; not needed if the pool has one length only")
	cmd.Flags().IntVar(&o.count, "count", 1, "How many blocks to show")
	session.AddFields(cmd, field.ScopeOf(&o.scope,
		"Network, or whatever its roles are, in which the blocks would be given: "+
			"for a pool that gives each network the same addresses"))
	session.CompleteArgs(s, cmd, session.PoolNames)
	return cmd
}

func (o *next) run(ctx context.Context, name string) error {
	if o.count < 1 || o.count > maxNext {
		return exit.Usagef("--count is %d; write a number from 1 to %d", o.count, maxNext)
	}
	r, pool, err := find(ctx, o.Session, o.workspace, name)
	if err != nil {
		return err
	}
	if pool.Object == nil {
		return exit.Fail(exit.NotFound, "a pool is shown to its own workspace, and to admins of the platform",
			"there is no pool %s that you may see", pool.Title())
	}
	switch {
	case len(o.scope) > 0:
		return o.show(pool.Within(o.scope))
	case pool.Object.Status.Spaces > 0:
		return exit.Usagef("give --scope, such as --scope network=vpc-1: pool %s gives the same addresses to each, "+
			"and %d have some", pool.Title(), pool.Object.Status.Spaces)
	}
	if err := settled(ctx, r, pool, exactly); err != nil {
		return err
	}
	return o.show(pool)
}

// maxNext is how many blocks the command shows at most.
const maxNext = 1000

// nextBlocks are the next free blocks of a pool.
type nextBlocks struct {
	Pool     string                `json:"pool"`
	Length   int32                 `json:"length"`
	Strategy ipamv1alpha1.Strategy `json:"strategy"`
	Blocks   []netip.Prefix        `json:"blocks"`
	// Unseen is how many addresses others hold without the caller seeing them. A block may be among these.
	Unseen string `json:"unseen"`
}

func (o *next) show(p *space.Pool) error {
	shown, pool := p.Space(), p.Object
	if !shown.Pool.IsValid() || pool.Status.Capacity == nil {
		return exit.Fail(exit.Unavailable, "kubectl ipam pool show "+pool.Name+" says why",
			"pool %s has no block yet", pool.Name)
	}
	length, err := o.lengthIn(pool, shown)
	if err != nil {
		return err
	}
	strategy := pool.Spec.Allocation.Strategy
	next := nextBlocks{
		Pool: pool.Name, Length: length, Strategy: strategy,
		Blocks: shown.Next(int(length), o.count, strategy), Unseen: p.Others().String(),
	}
	if len(next.Blocks) == 0 || full(pool, length) {
		return exit.Fail(ipamv1alpha1.ReasonPoolExhausted.ExitCode(), o.instead(pool),
			"pool %s has no free /%d", pool.Name, length)
	}
	if err := o.print(next); err != nil {
		return err
	}
	if len(next.Blocks) < o.count {
		o.Say("the pool has room for %d, not for %d", len(next.Blocks), o.count)
	}
	for _, why := range []string{p.OthersHold(), space.CoolsUntil(pool)} {
		if why != "" {
			o.Say("%s: some of these blocks may be among them", why)
		}
	}
	return nil
}

// instead returns the advice if a pool has no block of the length.
func (o *next) instead(pool *ipamv1alpha1.IPPool) string {
	const release = "release a block of it, or use another pool"
	if free := facts.LargestFree(pool); free != "" && pool.Status.Capacity.Available != "0" {
		return "the largest free block of the pool is a " + free + ": take that length, " + release
	}
	return "no address of the pool is free: " + release
}

// full reports whether the pool's own figures leave no room for a block of this length. They also count blocks that the
// caller does not see.
func full(pool *ipamv1alpha1.IPPool, length int32) bool {
	largest := pool.Status.LargestFreePrefix
	return pool.Status.Capacity.Available == "0" || largest != nil && *largest > length
}

// lengthIn returns the length of the blocks to show. The pool must allow it.
func (o *next) lengthIn(pool *ipamv1alpha1.IPPool, shown space.Space) (int32, error) {
	length := o.length
	least, most := space.Lengths(shown.Pool, pool.Spec)
	if length == 0 && least == most {
		return least, nil
	}
	if length == 0 {
		return 0, exit.Usagef("give --length: pool %s gives %s", pool.Name, facts.Lengths(least, most))
	}
	if length < least || length > most {
		return 0, exit.Fail(exit.Invalid, "", "pool %s gives %s, not /%d", pool.Name, facts.Lengths(least, most), length)
	}
	return length, nil
}

// print prints one block per line, unless the caller asked for another form.
func (o *next) print(next nextBlocks) error {
	if !o.report.Given() {
		o.report.Format = output.Name
	}
	t := output.NewTable("BLOCK", "POOL", "LENGTH", "ADDRESSES")
	for _, block := range next.Blocks {
		t.Rows = append(t.Rows, output.Row(nil, block.String(), next.Pool, facts.Slash(next.Length),
			cidr.Size(block).String()))
	}
	return o.report.PrintReport(o.Out, next, t)
}
