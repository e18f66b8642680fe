package claim

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

func newPin(s *session.Session) *cobra.Command {
	out := &output.Printer{}
	cmd := &cobra.Command{
		Use:   "pin NAME",
		Short: "Keep the block of a claim for the next claim of its name",
		Long: `Keep the block of a claim for the next claim of its name, and print its CIDR. So another tool,
such as Terraform or Argo CD, can take the address over: pin the claim, delete it, and let the
tool create it, with the same namespace, name, class and length and with retainedPolicy Reuse.

The command sets the reclaim policy Retain, and names the policy for the next claim. To give
the block up, release the claim, and then kubectl ipam claim release NAME --retained.`,
		Example: `  # let another tool create the claim "web" again, with its address
  kubectl ipam claim pin web
  kubectl ipam claim release web`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			here, err := s.Here()
			if err != nil {
				return err
			}
			return pin(cmd.Context(), s, here, here.Key(args[0]), out)
		},
	}
	out.AddFlags(cmd)
	session.CompleteArgs(s, cmd, session.ClaimNames)
	return cmd
}

// pin sets the reclaim policy of a claim so that its block stays when the claim is deleted.
func pin(ctx context.Context, s *session.Session, c client.Client, key client.ObjectKey, out *output.Printer) error {
	claim := &ipamv1alpha1.IPClaim{}
	if err := c.Get(ctx, key, claim); err != nil {
		return err
	}
	if isRange(claim) {
		return exit.Fail(exit.Invalid, "claims inside keep the range: it is released when nothing is left inside",
			"claim %s holds the range of its class and scope, which is not retained", key)
	}
	if err := movable(claim); err != nil {
		return err
	}
	if claim.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimRetain {
		if err := setPolicy(ctx, c, claim, ipamv1alpha1.ReclaimRetain); err != nil {
			return err
		}
	}
	class, err := session.Class(ctx, c, facts.Class(claim))
	if exit.IgnoreUnseen(err) != nil {
		return err
	}
	s.Say("claim %s is pinned: its block is retained when it is deleted", key)
	s.Say("%s", pinnedFor(claim, class))
	if out.Given() {
		return out.Print(s.Out, claim, s.Now)
	}
	screen.Line(s.Out, "%s", claim.Status.AllocatedCIDR)
	return nil
}

// pinnedFor says which claim can get a pinned block, and until when. The class is nil if the caller does not see it.
func pinnedFor(claim *ipamv1alpha1.IPClaim, class *ipamv1alpha1.IPClass) string {
	said := "the next claim of this name, class and length gets it, with spec.retainedPolicy Reuse"
	if class != nil && class.Spec.RetainedPolicy == ipamv1alpha1.RetainedReuse &&
		claim.Spec.RetainedPolicy != ipamv1alpha1.RetainedWait {
		said = "the next claim of this name, class and length gets it, as its class says"
	}
	if class != nil && class.Spec.RetentionLease != "" {
		said += ", within " + string(class.Spec.RetentionLease)
	}
	return said
}
