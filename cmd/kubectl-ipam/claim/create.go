package claim

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/request"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// creation is kubectl ipam claim create.
type creation struct {
	request.Command
	claim           ipamv1alpha1.IPClaim
	pool, workspace string
	number          int64
}

func newCreate(s *session.Session) *cobra.Command {
	o := &creation{Command: request.Command{Session: s}}
	cmd := &cobra.Command{
		Use:   "create [NAME]",
		Short: "Claim a block, wait for it and print its CIDR",
		Long: `Claim a block of addresses by a class or from a pool; with none of these, by the default
class. Wait for the block and print its CIDR.

A class of networks gives a block for each network, or whatever its roles are: --scope names the
object for each role. With --target range, the claim holds the range of the network itself. If that is
not there yet, it may be given: --address CIDR, or --length.

With a name, the command can be repeated: the same request gets the same block, and a
different one is a conflict. Without a name, each run creates another claim.

A claim that gets no block in time stays, and is bound when the cause is gone. The exit
code is that of the reason why it waits. With --unmet-policy Refuse, such a claim is not
created. To correct a claim that was never bound, repeat the command with --replace.`,
		Example: `  # correct the claim "batch", which asked for a block that it cannot get
  kubectl ipam claim create batch --class internal --length 26 --replace

  # claim the block that is retained from a deleted claim "web"
  kubectl ipam claim create web --class internal --retained-policy Reuse

  # claim an address in a network and a location, and hold the range of the network
  kubectl ipam claim create eth0 --class endpoint --scope network=vpc-1 --scope location=ams
  kubectl ipam claim create vpc-1 --class vpc --scope network=vpc-1 --target range

  # claim the VLAN ID 100
  kubectl ipam claim create office --class vlan --number 100

  # claim exactly this address, from a pool that the workspace root:net shares
  kubectl ipam claim create vip --pool edge --workspace root:net --address 192.0.2.7`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("number") { // 0 is a number, too
				o.claim.Spec.Number = &o.number
			}
			return o.run(cmd.Context(), args)
		},
	}
	o.addSpecFlags(cmd)
	o.AddFlags(cmd)
	cmd.MarkFlagsMutuallyExclusive("address", "number")
	cmd.MarkFlagsMutuallyExclusive("class", "pool")
	cmd.MarkFlagsMutuallyExclusive("class", "workspace")
	session.CompleteNames(s, cmd, "class", session.ClassNames)
	session.CompleteNames(s, cmd, "pool", session.PoolNames)
	return cmd
}

func (o *creation) addSpecFlags(cmd *cobra.Command) {
	spec := &o.claim.Spec
	flags := cmd.Flags()
	flags.StringVar(&o.pool, "pool", "", "Pool to claim from")
	flags.StringVar(&o.workspace, "workspace", "", "Workspace of the pool, such as root:net; empty is the current one")
	flags.StringVar(&spec.Address, "address", "", "Claim exactly this address or CIDR")
	flags.Int64Var(&o.number, "number", 0, "Claim exactly this number, by a class of numbers")
	session.AddFields(cmd, slices.Concat(field.OfClaim(&o.claim), field.OfAll(&o.claim.ObjectMeta), []field.Field{
		{Name: "length", Usage: "Prefix length of the block, such as 28", Value: field.Length(&spec.PrefixLength)},
		{Name: "family", Usage: "Address family: IPv4 or IPv6",
			Value: field.Word(&spec.IPFamily, ipamv1alpha1.IPv4, ipamv1alpha1.IPv6)},
		{Name: "unmet-policy",
			Usage: "What happens to a claim that cannot be met now: Wait stores it, Refuse does not create it",
			Value: field.Word(&spec.UnmetPolicy, ipamv1alpha1.UnmetWait, ipamv1alpha1.UnmetRefuse)},
	})...)
	o.AddReplace(cmd, "claim")
}

func (o *creation) run(ctx context.Context, args []string) error {
	if err := o.complete(args); err != nil {
		return err
	}
	if err := o.Send(ctx, &o.claim); err != nil {
		return err
	}
	if o.DryRun != request.DryRunNone || o.Given("target") {
		return nil
	}
	here, err := o.Here()
	if err != nil {
		return err
	}
	if hint := rangeMeant(ctx, here, &o.claim); hint != "" {
		o.Hint(hint)
	}
	return nil
}

// rangeMeant returns a hint for the user of a claim who may have forgotten --target range; empty: there is none, or the
// class cannot be read.
func rangeMeant(ctx context.Context, c client.Reader, claim *ipamv1alpha1.IPClaim) (hint string) {
	class := &ipamv1alpha1.IPClass{}
	if claim.Status.ClassName == "" || len(claim.Spec.Scope) == 0 ||
		c.Get(ctx, client.ObjectKey{Name: claim.Status.ClassName}, class) != nil || len(class.Spec.PoolPer) == 0 {
		return ""
	}
	return fmt.Sprintf("if the range of the scope was meant: "+
		"kubectl ipam claim release %s, and create it again with --target range", facts.Args(claim))
}

// complete sets the fields of the claim for which there is no field flag.
func (o *creation) complete(args []string) (err error) {
	if o.claim.Namespace, err = o.Namespace(); err != nil {
		return err
	}
	switch {
	case len(args) == 0:
		o.claim.GenerateName = "claim-"
	case args[0] == "": // otherwise a script whose variable is not set would get a new claim in each run
		return exit.Usagef("the name is empty; write a name, or leave NAME out for a generated one")
	default:
		o.claim.Name = args[0]
	}
	if ref := o.claim.Spec.OwnerRef; ref != nil && ref.Kind == "" {
		return exit.Usagef("--owner is missing; --owner-uid is the UID of that object")
	}
	if o.Replace && (o.claim.Name == "" || o.DryRun == request.DryRunServer) {
		return exit.Usagef("--replace replaces a claim: give its NAME, and no --dry-run=server")
	}
	if o.pool == "" && o.workspace != "" {
		return exit.Usagef("--workspace is the workspace of a pool; give --pool with it")
	}
	o.claim.Spec.PoolRef = space.Ref(o.pool, o.workspace)
	return nil
}
