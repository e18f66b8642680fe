package pool

import (
	"context"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/request"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// creation is kubectl ipam pool create.
type creation struct {
	request.Command
	scope               request.Scope
	pool                ipamv1alpha1.IPPool
	parent, workspace   string
	consumers, excluded []string
	edges               ipamv1alpha1.PoolReservations
	slices              ipamv1alpha1.PoolSlices
}

func newCreate(s *session.Session) *cobra.Command {
	o := &creation{Command: request.Command{Session: s}}
	cmd := &cobra.Command{
		Use:   "create NAME (--cidr CIDR | --parent POOL --length LENGTH)",
		Short: "Create a pool, wait for its block and print its CIDR",
		Long: `Create a pool of address space: a root pool with a CIDR of its own, or a child pool,
whose block is carved from a parent. Wait for the block and print its CIDR.

The command can be repeated: the same request gets the same answer, and a different one
of the same name is a conflict. A pool that gets no block stays, and has it when the cause
is gone. To correct a pool that never had a block, repeat the command with --replace.`,
		Example: `  # create a root pool behind the class "internal", and reserve its first /24
  kubectl ipam pool create lab --cidr 10.8.0.0/16 --class internal --leading 1 --unit-length 24

  # carve a /20 from it
  kubectl ipam pool create lab-east --parent lab --length 20

  # give each workspace that binds the API a /24 of its own
  kubectl ipam pool create edge --cidr 100.64.0.0/12 --visibility platform --slice-length 24

  # share a pool with all workspaces below root:acme
  kubectl ipam pool create transit --cidr 172.16.0.0/24 --visibility shared --consumer 'root:acme:*'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.addSpecFlags(cmd)
	o.AddFlags(cmd)
	cmd.MarkFlagsOneRequired("cidr", "parent")
	cmd.MarkFlagsMutuallyExclusive("cidr", "parent")
	cmd.MarkFlagsMutuallyExclusive("cidr", "workspace")
	session.CompleteNames(s, cmd, "parent", session.PoolNames)
	session.CompleteNames(s, cmd, "class", session.ClassNames)
	return cmd
}

func (o *creation) addSpecFlags(cmd *cobra.Command) {
	spec, flags := &o.pool.Spec, cmd.Flags()
	spec.Visibility, spec.Allocation.Strategy = ipamv1alpha1.VisibilityConsumer, ipamv1alpha1.FirstFit
	flags.StringVar((*string)(&spec.CIDR), "cidr", "", "Address space of a root pool, such as 10.8.0.0/16")
	flags.StringVar(&o.parent, "parent", "", "Pool to carve a child pool from")
	flags.StringVar(&o.workspace, "workspace", "", "Workspace of the parent, such as root:net; empty is the current one")
	flags.Var((*session.Length)(&spec.PrefixLength), "length", "Prefix length of a child pool")
	flags.StringVar(&spec.AddressDomain, "domain", "", "Address domain: root pools of one domain may overlap, and never allocate an address twice")
	o.scope.AddFlag(cmd, "Object whose claims the pool serves, and no others")
	flags.StringSliceVar(&spec.ClassNames, "class", nil, "Classes that the pool backs")
	session.Choose(cmd, &spec.Visibility, "visibility", "Which workspaces may use the pool: consumer (this one), shared (those of --consumer) or platform (all, by a class)",
		ipamv1alpha1.VisibilityConsumer, ipamv1alpha1.VisibilityShared, ipamv1alpha1.VisibilityPlatform)
	flags.StringSliceVar(&o.consumers, "consumer", nil, "Workspaces that may use the pool, such as root:acme:web or 'root:acme:*'")
	session.Choose(cmd, &spec.Allocation.Strategy, "strategy", "How a block is chosen: FirstFit, BestFit or LeastUtilized",
		ipamv1alpha1.FirstFit, ipamv1alpha1.BestFit, ipamv1alpha1.LeastUtilized)
	flags.Var((*session.Length)(&spec.Allocation.MinPrefixLength), "min-length", "Shortest prefix length that may be claimed: the largest block")
	flags.Var((*session.Length)(&spec.Allocation.MaxPrefixLength), "max-length", "Longest prefix length that may be claimed: the smallest block")
	flags.StringSliceVar(&o.excluded, "exclude", nil, "CIDRs inside the pool that are never allocated")
	flags.StringVar(&spec.Gateway, "gateway", "", "Address of the router, which is never allocated, such as 10.8.0.1")
	flags.Var((*session.Length)(&spec.NetworkPrefixLength), "network-length", "Prefix length of the network that the pool is part of; empty is that of the pool")
	flags.StringVar((*string)(&spec.MaxRetentionLease), "max-retention-lease", "", "The longest time for which a retained block is kept, such as 720h")
	flags.Int32Var(&o.edges.Leading, "leading", 0, "Number of blocks that are reserved at the start")
	flags.Int32Var(&o.edges.Trailing, "trailing", 0, "Number of blocks that are reserved at the end")
	flags.Var((*session.Length)(&o.edges.UnitPrefixLength), "unit-length", "Prefix length of each reserved block")
	flags.StringVar((*string)(&spec.ReleaseCooldown), "release-cooldown", "", "How long a freed block is not allocated to another claim, such as 30s; at most 24h")
	flags.StringVar((*string)(&spec.MaxPerConsumer), "max-per-consumer", "", "Addresses that one workspace may hold of the pool")
	flags.Var((*session.Length)(&o.slices.PrefixLength), "slice-length", "Prefix length of the child pool that each workspace gets which binds the API")
	flags.Int32Var(&o.slices.MaxSlices, "max-slices", 0, "How many workspaces get such a child pool; 0 is as many as fit")
	o.AddReplace(cmd, "pool")
}

func (o *creation) run(ctx context.Context, name string) error {
	o.pool.Name = name
	if err := o.complete(&o.pool.Spec); err != nil {
		return err
	}
	return o.Send(ctx, &o.pool)
}

// complete adds to the pool what no flag says by itself.
func (o *creation) complete(spec *ipamv1alpha1.IPPoolSpec) (err error) {
	if spec.Scope, err = o.scope.Parse(); err != nil {
		return err
	}
	if o.parent != "" {
		spec.ParentPoolRef = &ipamv1alpha1.PoolRef{Name: o.parent}
	}
	if o.workspace != "" {
		spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: o.workspace}
	}
	spec.Consumers, spec.ExcludedCIDRs = session.Words[ipamv1alpha1.Consumer](o.consumers), session.Words[ipamv1alpha1.CIDR](o.excluded)
	if o.edges.Leading != 0 || o.edges.Trailing != 0 {
		spec.Reservations = &o.edges
	}
	if o.edges.UnitPrefixLength != 0 && spec.Reservations == nil {
		return exit.Usagef("--unit-length is the length of the reserved blocks; give --leading or --trailing with it")
	}
	if o.slices.PrefixLength != 0 {
		spec.Slices = &o.slices
	}
	if o.slices.MaxSlices != 0 && spec.Slices == nil {
		return exit.Usagef("--max-slices is the number of slices; give --slice-length with it")
	}
	if (o.parent != "") != (spec.PrefixLength != 0) {
		return exit.Usagef("--parent and --length go together: give both for a child pool, and neither for a root pool")
	}
	return nil
}
