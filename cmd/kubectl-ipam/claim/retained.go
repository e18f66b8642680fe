package claim

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// retained returns the allocation that is retained from a former claim of this name in the current namespace; nil:
// there is none.
func retained(ctx context.Context, here session.Access, name string) (*ipamv1alpha1.IPAllocation, error) {
	kept, err := recordOf(ctx, here, here.Key(name))
	if apierrors.IsNotFound(err) || err == nil && kept.Spec.ClaimRef != nil {
		return nil, nil
	}
	return kept, err
}

// listRetained prints the retained allocations of a namespace, or of all.
func listRetained(ctx context.Context, o *output.Listing, namespace string) error {
	if !o.Output.Given() {
		o.Output.Format = output.Wide // this format has the column EXPIRES
	}
	o.Filter = func(list client.ObjectList) {
		records := list.(*ipamv1alpha1.IPAllocationList)
		records.Items = slices.DeleteFunc(records.Items, func(a ipamv1alpha1.IPAllocation) bool {
			return a.Spec.ClaimRef != nil
		})
	}
	return o.List(ctx, &ipamv1alpha1.IPAllocationList{}, namespace, "nothing is retained")
}

// describeRetained shows the allocation that is retained from a claim that is gone.
func describeRetained(s *session.Session, name string, kept *ipamv1alpha1.IPAllocation) {
	page := s.Page()
	page.Line("Claim", kept.Namespace+"/"+name)
	page.Line("Phase", "gone")
	page.Line("Retained", keptUntil(kept, s.Now()))
	page.Line("Class", kept.Spec.ClassName)
	page.Line("Pool", space.In(kept.Spec.PoolRef.Name, facts.Workspace(kept.Spec.PoolRef)))
	page.Line("Allocation", kept.Name)
}

// keptUntil says which block a retained allocation keeps, and until when.
func keptUntil(kept *ipamv1alpha1.IPAllocation, now time.Time) string {
	if kept.Status.Expires == nil {
		return kept.Status.AllocatedCIDR + ", until it is deleted"
	}
	if left := kept.Status.Expires.Sub(now); left > 0 {
		return fmt.Sprintf("%s, until %s (in %s)",
			kept.Status.AllocatedCIDR, facts.Expiry(kept), duration.HumanDuration(left))
	}
	return fmt.Sprintf("%s, until %s: it is about to be released", kept.Status.AllocatedCIDR, facts.Expiry(kept))
}
