package main

import (
	"context"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

func newClaimShow(s *session) *cobra.Command {
	out := &output{}
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a claim: what it holds, or why it waits",
		Long: `Show a claim: the block that it holds, its class and pool; or the reason why it waits, and
what to do. Of a claim that is deleted, show the block that is retained.`,
		Example: `  kubectl ipam claim show app

  # print the block only
  kubectl ipam claim show app -o jsonpath={.status.allocatedCIDR}`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return s.claimShow(cmd.Context(), args[0], out) },
	}
	out.addFlags(cmd)
	completeArgs(s, cmd, claimNames)
	return cmd
}

func (s *session) claimShow(ctx context.Context, name string, out *output) error {
	if err := out.validate(); err != nil {
		return err
	}
	claim, err := s.claim(ctx, name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	kept, keptErr := s.retained(ctx, name)
	switch {
	case err != nil && kept == nil:
		return err
	case err == nil && out.given():
		return out.print(s.Out, claim, s.now)
	case err == nil:
		describeClaim(s, claim, kept)
		return ignoreUnseen(keptErr)
	case out.given():
		return out.print(s.Out, &ipamv1alpha1.IPAllocationList{Items: []ipamv1alpha1.IPAllocation{*kept}}, s.now)
	}
	describeRetained(s, name, kept)
	return nil
}

// claim reads a claim of the current namespace.
func (s *session) claim(ctx context.Context, name string) (*ipamv1alpha1.IPClaim, error) {
	c, namespace, err := s.here()
	if err != nil {
		return nil, err
	}
	claim := &ipamv1alpha1.IPClaim{}
	return claim, c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, claim)
}

// describeClaim shows a claim, and what is retained from a former one of its name; nil for nothing.
func describeClaim(s *session, claim *ipamv1alpha1.IPClaim, kept *ipamv1alpha1.IPAllocation) {
	page := sheet{w: s.Out, paint: s.out}
	ref, status := poolOf(claim), claim.Status
	page.line("Claim", nameOf(claim))
	page.painted("Phase", page.phase(string(status.Phase)))
	page.line("Allocated", status.AllocatedCIDR)
	page.line("Asked for", requested(claim))
	page.line("Class", className(claim))
	page.line("Pool", space.In(ref.Name, workspaceOfRef(ref)))
	page.line("Family", string(status.IPFamily))
	page.line("Reclaim", string(claim.Spec.ReclaimPolicy))
	page.line("Owner", space.OwnerOf(claim.Spec.OwnerRef))
	if kept != nil {
		page.line("Retained", keptUntil(kept, s.now()))
	}
	if status.BoundAllocationRef != nil {
		page.line("Allocation", status.BoundAllocationRef.Name)
	}
	page.line("Age", age(claim.CreationTimestamp, s.now()))
	page.answer(answerOf(claim))
}

// answer says why there is no block, and what to do.
func (p *sheet) answer(a answer) {
	if a.allocated == nil || a.allocated.Status == metav1.ConditionTrue {
		return
	}
	reason := ipamv1alpha1.Reason(a.allocated.Reason)
	p.painted("Reason", p.paint.yellow(string(reason)))
	p.line("", a.allocated.Message)
	p.line("To do", reason.Remedy())
}
