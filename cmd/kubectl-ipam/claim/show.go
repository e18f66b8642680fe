package claim

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

func newShow(s *session.Session) *cobra.Command {
	one := func(ctx context.Context, here session.Access, name string, out *output.Printer) error {
		return show(ctx, s, here, name, out)
	}
	cmd := output.NewShow(s, session.ClaimNames, one)
	cmd.Short = "Show a claim: what it holds, or why it waits"
	cmd.Long = `Show a claim: the block that it holds, its class and pool; or the reason why it waits, and
what to do. Of a claim that is deleted, show the block that is retained.`
	cmd.Example = `  # print the block only
  kubectl ipam claim show app -o jsonpath={.status.allocatedCIDR}`
	return cmd
}

func show(ctx context.Context, s *session.Session, here session.Access, name string, out *output.Printer) error {
	claim, err := get(ctx, here, name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	kept, keptErr := retained(ctx, here, name)
	switch {
	case err != nil && kept == nil:
		return err
	case err == nil && out.Given():
		return out.Print(s.Out, claim, s.Now)
	case err == nil:
		describeClaim(s, claim, kept)
		return exit.IgnoreUnseen(keptErr)
	case out.Given():
		return out.Print(s.Out, &ipamv1alpha1.IPAllocationList{Items: []ipamv1alpha1.IPAllocation{*kept}}, s.Now)
	}
	describeRetained(s, name, kept)
	return nil
}

// get reads a claim of the current namespace.
func get(ctx context.Context, here session.Access, name string) (*ipamv1alpha1.IPClaim, error) {
	claim := &ipamv1alpha1.IPClaim{}
	return claim, here.Get(ctx, here.Key(name), claim)
}

// describeClaim shows a claim, and the allocation that is retained from a former claim of its name; nil: there is none.
func describeClaim(s *session.Session, claim *ipamv1alpha1.IPClaim, kept *ipamv1alpha1.IPAllocation) {
	page := s.Page()
	ref, status := facts.Pool(claim), claim.Status
	page.Line("Claim", facts.Name(claim))
	page.Painted("Phase", page.Phase(cmp.Or(facts.Held(claim, s.Now()), string(status.Phase))))
	page.Line("Allocated", status.AllocatedCIDR)
	if status.Number != nil {
		page.Line("Number", fmt.Sprint(*status.Number))
	}
	page.Line("Scope", facts.Scope(claim.Spec.Scope))
	page.Line("Target", facts.Target(claim))
	page.Line("Asked for", facts.Requested(claim))
	page.Line("Class", facts.Class(claim))
	page.Line("Pool", space.In(ref.Name, facts.Workspace(ref)))
	page.Line("Family", string(status.IPFamily))
	page.Line("Reclaim", string(claim.Spec.ReclaimPolicy))
	page.Line("Owner", space.OwnerOf(claim.Spec.OwnerRef))
	page.Line("Description", claim.Annotations[ipamv1alpha1.AnnotationDescription])
	if kept != nil {
		page.Line("Retained", keptUntil(kept, s.Now()))
	}
	if status.BoundAllocationRef != nil {
		page.Line("Allocation", status.BoundAllocationRef.Name)
	}
	page.Line("Allocation ID", string(status.AllocationID))
	page.Line("Age", facts.Age(claim.CreationTimestamp, s.Now()))
	facts.Describe(page, facts.AnswerOf(claim))
}
