package main

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// classCreate is kubectl ipam class create.
type classCreate struct {
	request
	family, strategy, visibility    string
	reclaim, unmet, retained        string
	shortest, longest, length       prefixLength
	consumers                       []string
	maxPerConsumer, cooldown, lease string
	isDefault                       bool
	labels                          map[string]string
}

func newClassCreate(s *session) *cobra.Command {
	o := &classCreate{request: request{session: s}}
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
	o.addFlags(cmd)
	cmd.MarkFlagsRequiredTogether("min-length", "max-length")
	if err := cmd.MarkFlagRequired("family"); err != nil {
		panic(err)
	}
	completeWith(cmd, "family", string(ipamv1alpha1.IPv4), string(ipamv1alpha1.IPv6))
	completeWith(cmd, "strategy", string(ipamv1alpha1.FirstFit), string(ipamv1alpha1.BestFit), string(ipamv1alpha1.LeastUtilized))
	completeWith(cmd, "reclaim-policy", string(ipamv1alpha1.ReclaimDelete), string(ipamv1alpha1.ReclaimRetain))
	completeWith(cmd, "unmet-policy", string(ipamv1alpha1.UnmetWait), string(ipamv1alpha1.UnmetRefuse))
	completeWith(cmd, "retained-policy", string(ipamv1alpha1.RetainedWait), string(ipamv1alpha1.RetainedReuse))
	completeWith(cmd, "visibility", string(ipamv1alpha1.VisibilityConsumer), string(ipamv1alpha1.VisibilityShared),
		string(ipamv1alpha1.VisibilityPlatform))
	return cmd
}

func (o *classCreate) addSpecFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.family, "family", "", "Address family: IPv4 or IPv6")
	flags.Var(&o.shortest, "min-length", "Shortest prefix length that may be claimed: the largest block")
	flags.Var(&o.longest, "max-length", "Longest prefix length that may be claimed: the smallest block")
	flags.Var(&o.length, "length", "Prefix length of a claim that asks for none")
	flags.StringVar(&o.strategy, "strategy", string(ipamv1alpha1.FirstFit), "How pool and block are chosen: FirstFit, BestFit or LeastUtilized")
	flags.StringVar(&o.reclaim, "reclaim-policy", string(ipamv1alpha1.ReclaimDelete), "When a claim is deleted: Delete frees its block, Retain keeps it")
	flags.StringVar(&o.unmet, "unmet-policy", "", "If there is no block when a claim is created: Wait stores it, Refuse fails the creation")
	flags.StringVar(&o.retained, "retained-policy", "", "If a block is retained from a deleted claim of the name: Wait until it is released, or Reuse it")
	flags.StringVar(&o.lease, "retention-lease", "", "How long a retained block is kept, such as 720h")
	flags.StringVar(&o.cooldown, "release-cooldown", "", "How long a freed block is not allocated to another claim, such as 30s")
	flags.StringVar(&o.visibility, "visibility", string(ipamv1alpha1.VisibilityPlatform), "Which workspaces may use the class: consumer (the platform workspace), shared (those of --consumer) or platform (all, or those of --consumer)")
	flags.StringSliceVar(&o.consumers, "consumer", nil, "Workspaces that may use the class, such as root:acme:web or 'root:acme:*'")
	flags.StringVar(&o.maxPerConsumer, "max-per-consumer", "", "Addresses that one workspace may hold by this class")
	flags.BoolVar(&o.isDefault, "default", false, "Make it the default class of its family")
	flags.StringToStringVar(&o.labels, "labels", nil, "Labels of the class, such as site=fra")
}

func (o *classCreate) run(ctx context.Context, name string) error {
	if err := o.validate(); err != nil {
		return err
	}
	class, err := o.class(name)
	if err != nil {
		return err
	}
	return o.send(ctx, class)
}

// class is what is asked for.
func (o *classCreate) class(name string) (*ipamv1alpha1.IPClass, error) {
	class := &ipamv1alpha1.IPClass{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: o.labels}}
	if o.isDefault {
		class.Annotations = map[string]string{ipamv1alpha1.AnnotationDefaultClass: "true"}
	}
	spec := &class.Spec
	spec.Provisioner, spec.DefaultPrefixLength = ipamv1alpha1.NativeProvisioner, int32(o.length)
	if o.longest != 0 {
		spec.AllowedPrefixLengths = &ipamv1alpha1.PrefixLengthRange{Min: int32(o.shortest), Max: int32(o.longest)}
	}
	spec.Consumers = words[ipamv1alpha1.Consumer](o.consumers)
	spec.MaxPerConsumer = ipamv1alpha1.AddressCount(o.maxPerConsumer)
	spec.ReleaseCooldown, spec.RetentionLease = ipamv1alpha1.Duration(o.cooldown), ipamv1alpha1.Duration(o.lease)
	var errs [6]error
	spec.IPFamily, errs[0] = oneOf("family", o.family, ipamv1alpha1.IPv4, ipamv1alpha1.IPv6)
	spec.Strategy, errs[1] = oneOf("strategy", o.strategy, ipamv1alpha1.FirstFit, ipamv1alpha1.BestFit, ipamv1alpha1.LeastUtilized)
	spec.ReclaimPolicy, errs[2] = oneOf("reclaim-policy", o.reclaim, ipamv1alpha1.ReclaimDelete, ipamv1alpha1.ReclaimRetain)
	spec.UnmetPolicy, errs[3] = oneOf("unmet-policy", o.unmet, ipamv1alpha1.UnmetWait, ipamv1alpha1.UnmetRefuse)
	spec.RetainedPolicy, errs[4] = oneOf("retained-policy", o.retained, ipamv1alpha1.RetainedWait, ipamv1alpha1.RetainedReuse)
	spec.Visibility, errs[5] = oneOf("visibility", o.visibility,
		ipamv1alpha1.VisibilityConsumer, ipamv1alpha1.VisibilityShared, ipamv1alpha1.VisibilityPlatform)
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return class, nil
}
