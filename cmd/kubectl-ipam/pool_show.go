package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// poolShow is kubectl ipam pool show.
type poolShow struct {
	*session
	output    output
	workspace string
}

func newPoolShow(s *session) *cobra.Command {
	o := &poolShow{session: s}
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a pool: how full it is, a map of its space, and the holders of its blocks",
		Long: `Show a pool: how full it is, a map of its space, and the holders of its blocks. Only admins
of the platform see the blocks of other workspaces; other users see how many addresses
those hold. Of a pool of another workspace, you see only the blocks that you hold.`,
		Example: `  kubectl ipam pool show lab

  # show what you hold of a pool that the workspace root:net shares
  kubectl ipam pool show edge --workspace root:net`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.output.addFlags(cmd)
	cmd.Flags().StringVar(&o.workspace, "workspace", "", "Workspace of the pool, such as root:net; empty is the current one")
	completeArgs(s, cmd, poolNames)
	return cmd
}

func (o *poolShow) run(ctx context.Context, name string) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	r, err := o.reach(ctx)
	if err != nil {
		return err
	}
	in := o.workspace
	if in == r.path {
		in = ""
	}
	pools, err := r.pools(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(pools, func(p ipamv1alpha1.IPPool) bool { return p.Name == name && r.workspace(&p) == in })
	if at < 0 && in == "" {
		return notFound("ippools", name)
	}
	if at >= 0 && o.output.given() {
		return o.output.print(o.Out, &pools[at], o.now)
	}
	allocations, err := r.allocations(ctx)
	if err != nil {
		return err
	}
	held := r.holdings(in, name, pools, allocations)
	if at < 0 {
		return o.guest(name, held)
	}
	if in == "" {
		if err := settled(ctx, r, &pools[at], held, func(unseen int) bool { return unseen == 0 }); err != nil {
			return err
		}
	}
	return describePool(o.session, &pools[at], held)
}

// lag is more than the figures of a pool lag behind its blocks.
const lag = 750 * time.Millisecond

// settled waits until the figures of a pool agree with the blocks that are shown, as long as
// they may lag behind. agrees is told the sign of the number of addresses that are counted
// beyond these blocks: others may hold more.
func settled(ctx context.Context, c client.WithWatch, pool *ipamv1alpha1.IPPool, held []space.Holding, agrees func(unseen int) bool) error {
	if pool.Status.Capacity == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, lag)
	defer cancel()
	err := ipamclient.Until(limited, c, pool, func() bool {
		shown, err := space.Of(pool, held)
		return err != nil || pool.Status.Capacity == nil || agrees(shown.Unseen(pool.Status.Capacity).Sign())
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return ignoreUnseen(err)
}

// guest shows what the caller holds of a pool that he may not read.
func (o *poolShow) guest(name string, held []space.Holding) error {
	if len(held) == 0 {
		return fail(exitNotFound, "a pool is shown to its own workspace, and to admins of the platform",
			"you hold nothing of a pool %s of %s", name, o.workspace)
	}
	page := sheet{w: o.Out, paint: o.out}
	page.line("Pool", space.In(name, o.workspace))
	printLine(o.Out, "")
	if err := o.listHoldings(held); err != nil {
		return err
	}
	printLine(o.Out, "")
	printLine(o.Out, "what others hold of it is not shown to you")
	return nil
}

func describePool(s *session, pool *ipamv1alpha1.IPPool, holdings []space.Holding) error {
	page := sheet{w: s.Out, paint: s.out}
	spec, status := pool.Spec, pool.Status
	page.line("Pool", pool.Name)
	page.painted("Phase", page.phase(string(status.Phase)))
	page.line("CIDR", cidrOf(pool))
	page.line("Parent", parentOf(pool))
	page.line("Domain", spec.AddressDomain)
	page.line("Classes", strings.Join(spec.ClassNames, ", "))
	page.line("Visibility", visible(spec))
	page.line("Lengths", lengthsOf(spec.Allocation.MinPrefixLength, spec.Allocation.MaxPrefixLength))
	page.line("Gateway", gatewayOf(spec))
	page.line("Lease", string(spec.MaxRetentionLease))
	page.line("Limit", limitOf(spec.MaxPerConsumer))
	page.line("Cooldown", string(spec.ReleaseCooldown))
	page.line("Age", age(pool.CreationTimestamp, s.now()))
	page.answer(answerOf(pool))
	if status.Capacity == nil {
		return nil // it has no block yet
	}
	shown, err := space.Of(pool, holdings)
	if err != nil {
		return err
	}
	page.line("Addresses", fmt.Sprintf("%s in all, %s taken, %s free", status.Capacity.Total, status.Capacity.Allocated, status.Capacity.Available))
	page.line("Cooling", cools(pool, s.now()))
	page.line("Largest free", largestFree(pool))
	page.painted("Taken", s.out.bar(pool))
	page.line("Forecast", space.OutlookOf(pool, s.now()).String())

	printLine(s.Out, "")
	spaceMap{shown}.draw(s.Out, s.width)
	return s.holders(shown, holdings, status.Capacity)
}

// holders lists the visible holders, and counts the addresses of the others.
func (s *session) holders(shown space.Space, holdings []space.Holding, capacity *ipamv1alpha1.PoolCapacity) error {
	if len(holdings) > 0 {
		printLine(s.Out, "")
		if err := s.listHoldings(holdings); err != nil {
			return err
		}
	}
	if rest := shown.Unseen(capacity); rest.Sign() > 0 {
		printLine(s.Out, "")
		printLine(s.Out, "others hold %s addresses, which are not shown to you; figures may be half a second old", rest)
	}
	return nil
}

func (s *session) listHoldings(holdings []space.Holding) error {
	t := table("BLOCK", "HOLDER", "CLASS", "AGE")
	for _, h := range holdings {
		t.Rows = append(t.Rows, row(nil, h.Block.String(), h.Holder, h.Class, age(h.Since, s.now())))
	}
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(t, s.Out)
}

// gatewayOf is the gateway of a pool and the length of its network, as far as they are given.
func gatewayOf(spec ipamv1alpha1.IPPoolSpec) string {
	if spec.NetworkPrefixLength == 0 {
		return spec.Gateway
	}
	return fmt.Sprintf("%s, network of a /%d", cmp.Or(spec.Gateway, "none"), spec.NetworkPrefixLength)
}

// visible says which workspaces may use a pool.
func visible(spec ipamv1alpha1.IPPoolSpec) string {
	if len(spec.Consumers) == 0 {
		return string(spec.Visibility)
	}
	consumers := make([]string, len(spec.Consumers))
	for i, consumer := range spec.Consumers {
		consumers[i] = string(consumer)
	}
	return fmt.Sprintf("%s, for %s", spec.Visibility, strings.Join(consumers, ", "))
}
