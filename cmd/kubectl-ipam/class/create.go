package class

import (
	"context"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/request"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// creation is kubectl ipam class create.
type creation struct {
	request.Command
	class     ipamv1alpha1.IPClass
	lengths   ipamv1alpha1.PrefixLengthRange
	consumers []string
	isDefault bool
}

func newCreate(s *session.Session) *cobra.Command {
	o := &creation{Command: request.Command{Session: s}}
	cmd := &cobra.Command{
		Use:   "create NAME --family FAMILY",
		Short: "Create a class, and wait until it can be used",
		Long: `Create a class of address space in the platform workspace. Wait until the class can be
used, and print its name.

A pool backs the classes that it names: kubectl ipam pool create POOL --cidr CIDR
--class NAME --visibility platform. To change a class, use kubectl edit ipclass NAME.`,
		Example: `  # blocks of /24 to /28 for all workspaces, a /28 unless the claim gives a length
  kubectl ipam class create internal --family IPv4 --min-length 24 --max-length 28 --length 28

  # single addresses for two teams, at most 16 for each workspace
  kubectl ipam class create public --family IPv4 --min-length 32 --max-length 32 \
      --visibility shared --consumer root:acme:web --consumer 'root:zeta:*' --max-per-consumer 16`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.addSpecFlags(cmd)
	o.AddFlags(cmd)
	cmd.MarkFlagsRequiredTogether("min-length", "max-length")
	if err := cmd.MarkFlagRequired("family"); err != nil {
		panic(err)
	}
	return cmd
}

func (o *creation) addSpecFlags(cmd *cobra.Command) {
	spec, flags := &o.class.Spec, cmd.Flags()
	spec.Provisioner, spec.Strategy = ipamv1alpha1.NativeProvisioner, ipamv1alpha1.FirstFit
	spec.ReclaimPolicy, spec.Visibility = ipamv1alpha1.ReclaimDelete, ipamv1alpha1.VisibilityPlatform
	session.Choose(cmd, &spec.IPFamily, "family", "Address family: IPv4 or IPv6", ipamv1alpha1.IPv4, ipamv1alpha1.IPv6)
	flags.Var((*session.Length)(&o.lengths.Min), "min-length", "Shortest prefix length that may be claimed: the largest block")
	flags.Var((*session.Length)(&o.lengths.Max), "max-length", "Longest prefix length that may be claimed: the smallest block")
	flags.Var((*session.Length)(&spec.DefaultPrefixLength), "length", "Prefix length of a claim that asks for none")
	session.Choose(cmd, &spec.Strategy, "strategy", "How pool and block are chosen: FirstFit, BestFit or LeastUtilized",
		ipamv1alpha1.FirstFit, ipamv1alpha1.BestFit, ipamv1alpha1.LeastUtilized)
	session.Choose(cmd, &spec.ReclaimPolicy, "reclaim-policy", "When a claim is deleted: Delete frees its block, Retain keeps it",
		ipamv1alpha1.ReclaimDelete, ipamv1alpha1.ReclaimRetain)
	session.Choose(cmd, &spec.UnmetPolicy, "unmet-policy", "If there is no block when a claim is created: Wait stores it, Refuse fails the creation",
		ipamv1alpha1.UnmetWait, ipamv1alpha1.UnmetRefuse)
	session.Choose(cmd, &spec.RetainedPolicy, "retained-policy", "If a block is retained from a deleted claim of the name: Wait until it is released, or Reuse it",
		ipamv1alpha1.RetainedWait, ipamv1alpha1.RetainedReuse)
	flags.StringVar(&spec.ParentClassName, "parent", "", "Class whose pools the blocks are taken from")
	flags.StringSliceVar(&spec.PoolPer, "pool-per", nil, "Make a pool for each combination of the objects of these roles, such as project,network; with project, each workspace has its own, with allProjects all share them")
	flags.StringSliceVar(&spec.UniqueWithin, "unique-within", nil, "Give an address once within the objects of these roles, such as network, and not once in the pool")
	flags.StringVar((*string)(&spec.RetentionLease), "retention-lease", "", "How long a retained block is kept, such as 720h")
	flags.StringVar((*string)(&spec.ReleaseCooldown), "release-cooldown", "", "How long a freed block is not allocated to another claim, such as 30s")
	session.Choose(cmd, &spec.Visibility, "visibility", "Which workspaces may use the class: consumer (the platform workspace), shared (those of --consumer) or platform (all, or those of --consumer)",
		ipamv1alpha1.VisibilityConsumer, ipamv1alpha1.VisibilityShared, ipamv1alpha1.VisibilityPlatform)
	flags.StringSliceVar(&o.consumers, "consumer", nil, "Workspaces that may use the class, such as root:acme:web or 'root:acme:*'")
	flags.StringVar((*string)(&spec.MaxPerConsumer), "max-per-consumer", "", "Addresses that one workspace may hold by this class")
	flags.BoolVar(&o.isDefault, "default", false, "Make it the default class of its family")
}

func (o *creation) run(ctx context.Context, name string) error {
	o.class.Name, o.class.Spec.Consumers = name, session.Words[ipamv1alpha1.Consumer](o.consumers)
	if o.isDefault {
		o.class.Annotations = map[string]string{ipamv1alpha1.AnnotationDefaultClass: "true"}
	}
	if o.lengths.Max != 0 {
		o.class.Spec.AllowedPrefixLengths = &o.lengths
	}
	return o.Send(ctx, &o.class)
}
