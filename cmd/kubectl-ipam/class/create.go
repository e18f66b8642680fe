package class

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/request"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// creation is kubectl ipam class create.
type creation struct {
	request.Command
	class     ipamv1alpha1.IPClass
	lengths   ipamv1alpha1.PrefixLengthRange
	number    ipamv1alpha1.ClassNumber
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
		Example: `  # single addresses for two teams, at most 16 for each workspace
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
	spec := &o.class.Spec
	spec.Provisioner, spec.Strategy = ipamv1alpha1.NativeProvisioner, ipamv1alpha1.FirstFit
	spec.ReclaimPolicy, spec.Visibility = ipamv1alpha1.ReclaimDelete, ipamv1alpha1.VisibilityPlatform
	session.AddFields(cmd, append(field.OfAll(&o.class.ObjectMeta), []field.Field{
		{Name: "family", Usage: "Address family: IPv4 or IPv6",
			Value: field.Word(&spec.IPFamily, ipamv1alpha1.IPv4, ipamv1alpha1.IPv6)},
		{Name: "min-length", Usage: "Shortest prefix length that may be claimed: the largest block",
			Value: field.Length(&o.lengths.Min)},
		{Name: "max-length", Usage: "Longest prefix length that may be claimed: the smallest block",
			Value: field.Length(&o.lengths.Max)},
		{Name: "length", Usage: "Prefix length of a claim that asks for none",
			Value: field.Length(&spec.DefaultPrefixLength)},
		{Name: "strategy", Usage: "How pool and block are chosen: FirstFit, BestFit or LeastUtilized",
			Value: field.Strategy(&spec.Strategy)},
		{Name: "reclaim-policy", Usage: "When a claim is deleted: Delete frees its block, Retain keeps it",
			Value: field.Word(&spec.ReclaimPolicy, ipamv1alpha1.ReclaimDelete, ipamv1alpha1.ReclaimRetain)},
		{Name: "unmet-policy",
			Usage: "If there is no block when a claim is created: Wait stores it, Refuse fails the creation",
			Value: field.Word(&spec.UnmetPolicy, ipamv1alpha1.UnmetWait, ipamv1alpha1.UnmetRefuse)},
		{Name: "retained-policy",
			Usage: "If a block is retained from a deleted claim of the name: Wait until it is released, or Reuse it",
			Value: field.Word(&spec.RetainedPolicy, ipamv1alpha1.RetainedWait, ipamv1alpha1.RetainedReuse)},
		{Name: "parent", Usage: "Class whose pools the blocks are taken from", Value: field.Text(&spec.ParentClassName)},
		{Name: "pool-per", Usage: "Make a pool for each combination of the objects of these roles, " +
			"such as project,network; with project, each workspace has its own, with allProjects all share them",
			Value: field.List(&spec.PoolPer)},
		{Name: "provisioning", Usage: "When a pool of --pool-per is made: OnDemand, by the first claim that needs it, " +
			"or Held, by claim create --target range alone",
			Value: field.Word(&spec.Provisioning, ipamv1alpha1.ProvisionOnDemand, ipamv1alpha1.ProvisionHeld)},
		{Name: "unique-within",
			Usage: "Give an address once within the objects of these roles, such as network, and not once in the pool",
			Value: field.List(&spec.UniqueWithin)},
		{Name: "number-bits", Usage: "Show the last bits of an address as a number, such as 24 of them for a VNI; " +
			"the class gives single addresses",
			Value: field.Number(&o.number.Bits)},
		{Name: "retention-lease", Usage: "How long a retained block is kept, such as 720h",
			Value: field.Text(&spec.RetentionLease)},
		{Name: "release-cooldown", Usage: "How long a freed block is not allocated to another claim, such as 30s",
			Value: field.Text(&spec.ReleaseCooldown)},
		{Name: "visibility", Usage: "Which workspaces may use the class: " +
			"consumer (the platform workspace), shared (those of --consumer) or platform (all, or those of --consumer)",
			Value: field.Word(&spec.Visibility, ipamv1alpha1.VisibilityConsumer, ipamv1alpha1.VisibilityShared,
				ipamv1alpha1.VisibilityPlatform)},
		{Name: "consumer", Usage: "Workspaces that may use the class, such as root:acme:web or 'root:acme:*'",
			Value: field.List(&spec.Consumers)},
		{Name: "max-per-consumer", Usage: "Addresses that one workspace may hold by this class",
			Value: field.Text(&spec.MaxPerConsumer)},
	}...)...)
	cmd.Flags().BoolVar(&o.isDefault, "default", false, "Make it the default class of its family")
}

func (o *creation) run(ctx context.Context, name string) error {
	o.class.Name = name
	if o.isDefault {
		metav1.SetMetaDataAnnotation(&o.class.ObjectMeta, ipamv1alpha1.AnnotationDefaultClass, "true")
	}
	if o.lengths.Max != 0 {
		o.class.Spec.AllowedPrefixLengths = &o.lengths
	}
	if o.number.Bits != 0 {
		o.class.Spec.Number = &o.number
	}
	return o.Send(ctx, &o.class)
}
