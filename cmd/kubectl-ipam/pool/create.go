package pool

import (
	"context"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/request"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// creation is kubectl ipam pool create.
type creation struct {
	request.Command
	pool              ipamv1alpha1.IPPool
	parent, workspace string
}

func newCreate(s *session.Session) *cobra.Command {
	o := &creation{Command: request.Command{Session: s}}
	cmd := &cobra.Command{
		Use:   "create NAME (--cidr CIDR | --parent POOL --length LENGTH | --class CLASS [--length LENGTH])",
		Short: "Create a pool, wait for its block and print its CIDR",
		Long: `Create a pool of address space: a root pool with a CIDR of its own, a child pool, whose
block is carved from a parent, or a pool by class, whose block is carved from a pool that
the class offers. Wait for the block and print its CIDR. With --address, the block is
exactly this one.

With --cidr or --parent, --class names the classes that the pool backs.

The command can be repeated: the same request gets the same answer, and a different one
of the same name is a conflict. A pool that gets no block stays, and has it when the cause
is gone. To correct a pool that never had a block, repeat the command with --replace.`,
		Example: `  # create a root pool behind the class "internal", and reserve its first /24
  kubectl ipam pool create lab --cidr 10.8.0.0/16 --class internal --leading 1 --unit-length 24

  # carve a /20 from it
  kubectl ipam pool create lab-east --parent lab --length 20

  # carve exactly this block from it
  kubectl ipam pool create lab-west --parent lab --address 10.8.32.0/20

  # get a /24 by the class "internal", to claim from it
  kubectl ipam pool create ours --class internal --length 24

  # give each workspace that binds the API a /24 of its own
  kubectl ipam pool create edge --cidr 100.64.0.0/12 --visibility platform --slice-length 24`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.addSpecFlags(cmd)
	o.AddFlags(cmd)
	cmd.MarkFlagsOneRequired("cidr", "parent", "class")
	cmd.MarkFlagsMutuallyExclusive("cidr", "parent")
	cmd.MarkFlagsMutuallyExclusive("cidr", "workspace")
	cmd.MarkFlagsMutuallyExclusive("cidr", "address")
	cmd.MarkFlagsMutuallyExclusive("length", "address")
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
	flags.Var(field.Length(&spec.PrefixLength), "length", "Prefix length of a child pool, or of a pool by class")
	flags.StringVar((*string)(&spec.Address), "address", "",
		"Block to carve for a child pool, or for a pool by class, such as 10.8.32.0/20, and no other")
	session.AddFields(cmd, append(field.OfPool(&o.pool), field.OfAll(&o.pool.ObjectMeta)...)...)
	o.AddReplace(cmd, "pool")
}

func (o *creation) run(ctx context.Context, name string) error {
	o.pool.Name = name
	if err := o.complete(&o.pool.Spec); err != nil {
		return err
	}
	return o.Send(ctx, &o.pool)
}

// complete sets the fields of the pool for which there is no field flag.
func (o *creation) complete(spec *ipamv1alpha1.IPPoolSpec) error {
	spec.ParentPoolRef = space.Ref(o.parent, o.workspace)
	if spec.CIDR == "" && o.parent == "" {
		if len(spec.ClassNames) != 1 {
			return exit.Usagef("--class names the class to get the block by: give one; " +
				"with --cidr or --parent, the pool backs all of them")
		}
		spec.ParentClassName, spec.ClassNames = spec.ClassNames[0], nil
	}
	switch edges := spec.Reservations; {
	case edges != nil && edges.Leading == 0 && edges.Trailing == 0:
		return exit.Usagef("--unit-length is the length of the reserved blocks; give --leading or --trailing with it")
	case spec.Slices != nil && spec.Slices.PrefixLength == 0:
		return exit.Usagef("--max-slices is the number of slices; give --slice-length with it")
	case o.workspace != "" && o.parent == "":
		return exit.Usagef("--workspace is that of the parent; give --parent with it")
	case spec.ParentClassName == "" && (o.parent != "") != (spec.PrefixLength != 0 || spec.Address != ""):
		return exit.Usagef("--parent and --length go together: " +
			"give both for a child pool, or --address instead of the length, and neither for a root pool")
	case o.Replace && o.DryRun == request.DryRunServer: // this would delete the existing pool
		return exit.Usagef("--replace replaces a pool: give no --dry-run=server")
	}
	return nil
}
