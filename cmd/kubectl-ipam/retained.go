package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// retained is what is retained from a former claim of a name in the current namespace; nil if
// nothing is.
func (s *session) retained(ctx context.Context, name string) (*ipamv1alpha1.IPAllocation, error) {
	c, namespace, err := s.here()
	if err != nil {
		return nil, err
	}
	kept, err := recordOf(ctx, c, client.ObjectKey{Namespace: namespace, Name: name})
	if apierrors.IsNotFound(err) || err == nil && kept.Spec.ClaimRef != nil {
		return nil, nil
	}
	return kept, err
}

// listRetained prints the retained allocations of a namespace, or of all.
func (o *listing) listRetained(ctx context.Context, namespace string) error {
	if !o.output.given() {
		o.output.format = outputWide // which has the column EXPIRES
	}
	o.filter = func(list client.ObjectList) {
		records := list.(*ipamv1alpha1.IPAllocationList)
		records.Items = slices.DeleteFunc(records.Items, func(a ipamv1alpha1.IPAllocation) bool { return a.Spec.ClaimRef != nil })
	}
	return o.list(ctx, &ipamv1alpha1.IPAllocationList{}, namespace, "nothing is retained")
}

// describeRetained shows what is retained from a claim that is gone.
func describeRetained(s *session, name string, kept *ipamv1alpha1.IPAllocation) {
	page := sheet{w: s.Out, paint: s.out}
	page.line("Claim", kept.Namespace+"/"+name)
	page.line("Phase", "gone")
	page.line("Retained", keptUntil(kept, s.now()))
	page.line("Class", kept.Spec.ClassName)
	page.line("Pool", space.In(kept.Spec.PoolRef.Name, workspaceOfRef(kept.Spec.PoolRef)))
	page.line("Allocation", kept.Name)
}

// keptUntil is what a retained allocation keeps, and until when.
func keptUntil(kept *ipamv1alpha1.IPAllocation, now time.Time) string {
	if kept.Status.Expires == nil {
		return kept.Status.AllocatedCIDR + ", until it is deleted"
	}
	if left := kept.Status.Expires.Sub(now); left > 0 {
		return fmt.Sprintf("%s, until %s (in %s)", kept.Status.AllocatedCIDR, expiry(kept), duration.HumanDuration(left))
	}
	return fmt.Sprintf("%s, until %s: it is about to be released", kept.Status.AllocatedCIDR, expiry(kept))
}

// expiry is when a retained allocation is released; empty if it is not by itself.
func expiry(a *ipamv1alpha1.IPAllocation) string {
	if a.Status.Expires == nil {
		return ""
	}
	return a.Status.Expires.UTC().Format(time.RFC3339)
}

// waysOut says what ends the wait of a claim for whose name a block is retained.
func (q question) waysOut(s *session) {
	if q.kept == nil || reasonOf(q.claim.Status.Conditions) != string(ipamv1alpha1.ReasonAllocationRetained) {
		return
	}
	namespace := q.claim.Namespace
	printLine(s.Out, "")
	printLine(s.Out, "retained: %s", keptUntil(q.kept, s.now()))
	printLine(s.Out, "  to give it up:    kubectl delete ipallocation %s -n %s", q.kept.Name, namespace)
	printLine(s.Out, "  to get it back:   kubectl ipam claim create %s -n %s%s --address %s --retained-policy Reuse --replace",
		q.claim.Name, namespace, sourceOf(q.kept), q.kept.Status.AllocatedCIDR)
}

// sourceOf are the flags of a claim that asks as the former one did.
func sourceOf(kept *ipamv1alpha1.IPAllocation) string {
	if kept.Spec.ClassName != "" {
		return " --class " + kept.Spec.ClassName
	}
	flags := " --pool " + kept.Spec.PoolRef.Name
	if in := workspaceOfRef(kept.Spec.PoolRef); in != "" {
		flags += " --workspace " + in
	}
	return flags
}

// leaseOf says how long a class retains a block.
func leaseOf(spec ipamv1alpha1.IPClassSpec) string {
	if spec.RetentionLease == "" {
		return ""
	}
	return string(spec.RetentionLease) + " for what is retained, unless its pool says less"
}

// retainedOf says what a claim of a class makes of what is retained for its name.
func retainedOf(spec ipamv1alpha1.IPClassSpec) string {
	if spec.RetainedPolicy != ipamv1alpha1.RetainedReuse {
		return ""
	}
	return "a later claim of the same name, class and length gets the block back"
}
