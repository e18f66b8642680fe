package main

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// poolCreate is kubectl ipam pool create.
type poolCreate struct {
	request
	cidr, parent, workspace, domain string
	length, shortest, longest, unit prefixLength
	classes, consumers, excluded    []string
	visibility, strategy, cooldown  string
	leading, trailing               int32
	gateway, maxLease               string
	network                         prefixLength
	labels                          map[string]string
}

func newPoolCreate(s *session) *cobra.Command {
	o := &poolCreate{request: request{session: s}}
	cmd := &cobra.Command{
		Use:   "create NAME (--cidr CIDR | --parent POOL --length LENGTH)",
		Short: "Create a pool, wait for its block and print its CIDR",
		Long: `Create a pool of address space: a root pool with a CIDR of its own, or a child pool,
whose block is carved from a parent. Wait for the block and print its CIDR.

The command can be repeated: the same request gets the same answer, and a different one
of the same name is a conflict.`,
		Example: `  # create a root pool behind the class "internal", and reserve its first /24
  kubectl ipam pool create lab --cidr 10.8.0.0/16 --class internal --leading 1 --unit-length 24

  # carve a /20 from it
  kubectl ipam pool create lab-east --parent lab --length 20

  # share a pool with all workspaces below root:acme
  kubectl ipam pool create transit --cidr 172.16.0.0/24 --visibility shared --consumer 'root:acme:*'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.addSpecFlags(cmd)
	o.addFlags(cmd)
	cmd.MarkFlagsOneRequired("cidr", "parent")
	cmd.MarkFlagsMutuallyExclusive("cidr", "parent")
	cmd.MarkFlagsMutuallyExclusive("cidr", "workspace")
	completeWith(cmd, "strategy", string(ipamv1alpha1.FirstFit), string(ipamv1alpha1.BestFit), string(ipamv1alpha1.LeastUtilized))
	completeWith(cmd, "visibility", string(ipamv1alpha1.VisibilityConsumer), string(ipamv1alpha1.VisibilityShared),
		string(ipamv1alpha1.VisibilityPlatform))
	completeNames(s, cmd, "parent", poolNames)
	completeNames(s, cmd, "class", classNames)
	return cmd
}

func (o *poolCreate) addSpecFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.cidr, "cidr", "", "Address space of a root pool, such as 10.8.0.0/16")
	flags.StringVar(&o.parent, "parent", "", "Pool to carve a child pool from")
	flags.StringVar(&o.workspace, "workspace", "", "Workspace of the parent, such as root:net; empty is the current one")
	flags.Var(&o.length, "length", "Prefix length of a child pool")
	flags.StringVar(&o.domain, "domain", "", "Address domain: root pools of one domain may overlap, and never allocate an address twice")
	flags.StringSliceVar(&o.classes, "class", nil, "Classes that the pool backs")
	flags.StringVar(&o.visibility, "visibility", string(ipamv1alpha1.VisibilityConsumer), "Which workspaces may use the pool: consumer (this one), shared (those of --consumer) or platform (all, by a class)")
	flags.StringSliceVar(&o.consumers, "consumer", nil, "Workspaces that may use the pool, such as root:acme:web or 'root:acme:*'")
	flags.StringVar(&o.strategy, "strategy", string(ipamv1alpha1.FirstFit), "How a block is chosen: FirstFit, BestFit or LeastUtilized")
	flags.Var(&o.shortest, "min-length", "Shortest prefix length that may be claimed: the largest block")
	flags.Var(&o.longest, "max-length", "Longest prefix length that may be claimed: the smallest block")
	flags.StringSliceVar(&o.excluded, "exclude", nil, "CIDRs inside the pool that are never allocated")
	flags.StringVar(&o.gateway, "gateway", "", "Address of the router, which is never allocated, such as 10.8.0.1")
	flags.Var(&o.network, "network-length", "Prefix length of the network that the pool is part of; empty is that of the pool")
	flags.StringVar(&o.maxLease, "max-retention-lease", "", "The longest time for which a retained block is kept, such as 720h")
	flags.Int32Var(&o.leading, "leading", 0, "Number of blocks that are reserved at the start")
	flags.Int32Var(&o.trailing, "trailing", 0, "Number of blocks that are reserved at the end")
	flags.Var(&o.unit, "unit-length", "Prefix length of each reserved block")
	flags.StringVar(&o.cooldown, "release-cooldown", "", "How long a freed block is not allocated to another claim, such as 30s; at most 24h")
	flags.StringToStringVar(&o.labels, "labels", nil, "Labels of the pool, such as site=fra")
}

func (o *poolCreate) run(ctx context.Context, name string) error {
	if err := o.validate(); err != nil {
		return err
	}
	pool, err := o.pool(name)
	if err != nil {
		return err
	}
	return o.send(ctx, pool)
}

// pool is what is asked for.
func (o *poolCreate) pool(name string) (*ipamv1alpha1.IPPool, error) {
	for flag, value := range map[string]string{"cidr": o.cidr, "parent": o.parent} {
		if o.given(flag) && value == "" {
			return nil, usagef("--%s is empty; write --cidr 10.8.0.0/16 for a root pool, or --parent POOL for a child pool", flag)
		}
	}
	pool := &ipamv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: o.labels}}
	spec := &pool.Spec
	spec.CIDR, spec.PrefixLength, spec.AddressDomain = ipamv1alpha1.CIDR(o.cidr), int32(o.length), o.domain
	if o.parent != "" {
		spec.ParentPoolRef = &ipamv1alpha1.PoolRef{Name: o.parent}
	}
	if o.workspace != "" {
		spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: o.workspace}
	}
	spec.ClassNames, spec.ReleaseCooldown = o.classes, ipamv1alpha1.Duration(o.cooldown)
	spec.Gateway, spec.NetworkPrefixLength = o.gateway, int32(o.network)
	spec.MaxRetentionLease = ipamv1alpha1.Duration(o.maxLease)
	spec.Consumers = words[ipamv1alpha1.Consumer](o.consumers)
	spec.ExcludedCIDRs = words[ipamv1alpha1.CIDR](o.excluded)
	spec.Allocation.MinPrefixLength, spec.Allocation.MaxPrefixLength = int32(o.shortest), int32(o.longest)
	if o.leading != 0 || o.trailing != 0 {
		spec.Reservations = &ipamv1alpha1.PoolReservations{
			Leading: o.leading, Trailing: o.trailing, UnitPrefixLength: int32(o.unit),
		}
	}
	if o.unit != 0 && spec.Reservations == nil {
		return nil, usagef("--unit-length is the length of the reserved blocks; give --leading or --trailing with it")
	}
	var err error
	spec.Visibility, err = oneOf("visibility", o.visibility,
		ipamv1alpha1.VisibilityConsumer, ipamv1alpha1.VisibilityShared, ipamv1alpha1.VisibilityPlatform)
	if err != nil {
		return nil, err
	}
	spec.Allocation.Strategy, err = oneOf("strategy", o.strategy, ipamv1alpha1.FirstFit, ipamv1alpha1.BestFit, ipamv1alpha1.LeastUtilized)
	if err != nil {
		return nil, err
	}
	if (o.parent != "") != (o.length != 0) {
		return nil, usagef("--parent and --length go together: give both for a child pool, and neither for a root pool")
	}
	return pool, nil
}

func words[T ~string](texts []string) []T {
	list := make([]T, len(texts))
	for i, text := range texts {
		list[i] = T(text)
	}
	return list
}
