package e2e

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Programs that wait for objects read all of our kinds rightly: those with the library
// kstatus, as kustomize and Flux, and kubectl wait, which looks at one condition, and at
// the generation that it speaks of.
func TestKstatus(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	class := s.class(gen.DefaultLength(28))
	other := gen.Class(s.name+"-other", gen.Provisioner("example.com/other"))
	framework.Create(t, s.platform, other)
	pool := s.pool(s.cidr)
	own := s.ownPool()
	overlapping := gen.Pool("overlapping")
	orphan := gen.Pool("orphan", gen.ChildOf("missing", 24))
	waits := gen.Claim("waits", gen.OfClass("missing"), gen.Length(28))
	stalled := gen.Claim("stalled", gen.OfClass(s.name), gen.Length(28), gen.Family(ipamv1alpha1.IPv6))
	framework.Create(t, s.tenant, overlapping, orphan, waits, stalled)
	bound := s.holds("bound")
	retained := s.holds("retained", gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	changed := s.holds("changed")
	framework.Update(t, s.tenant, changed, func(c *ipamv1alpha1.IPClaim) { c.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain })
	framework.Delete(t, s.tenant, retained)
	framework.WaitGone(t, s.tenant, retained)

	for _, tt := range []struct {
		in     client.Client
		object client.Object
		want   kstatus.Status
	}{
		{s.platform, class, kstatus.CurrentStatus},
		{s.platform, other, kstatus.FailedStatus},
		{s.platform, pool, kstatus.CurrentStatus},
		{s.tenant, own, kstatus.CurrentStatus},
		{s.tenant, overlapping, kstatus.FailedStatus},
		{s.tenant, orphan, kstatus.InProgressStatus},
		{s.tenant, bound, kstatus.CurrentStatus},
		{s.tenant, changed, kstatus.CurrentStatus},
		{s.tenant, waits, kstatus.InProgressStatus},
		{s.tenant, stalled, kstatus.FailedStatus},
		{s.tenant, recordOf(t, s.tenant, bound), kstatus.CurrentStatus},
		{s.tenant, recordOf(t, s.tenant, retained), kstatus.CurrentStatus},
		{s.tenant, recordOf(t, s.tenant, changed), kstatus.CurrentStatus},
	} {
		waitStatus(t, tt.in, tt.object, tt.want)
	}
}

// waitStatus waits until kstatus reads an object so, from conditions that speak of the
// object as it is.
func waitStatus(t *testing.T, c client.Client, object client.Object, want kstatus.Status) {
	t.Helper()
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		t.Fatalf("GroupVersionKindFor: %v", err)
	}
	read := &unstructured.Unstructured{}
	read.SetGroupVersionKind(kind)
	what := fmt.Sprintf("%T %s to be %s", object, object.GetName(), want)
	framework.Eventually(t, what, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), read); err != nil {
			return err
		}
		result, err := kstatus.Compute(read)
		if err != nil {
			return err
		}
		if result.Status != want {
			return fmt.Errorf("it is %s: %s", result.Status, result.Message)
		}
		conditions, _, err := unstructured.NestedSlice(read.Object, "status", "conditions")
		if err != nil || len(conditions) == 0 {
			return fmt.Errorf("its conditions are %v: %w", conditions, err)
		}
		for _, condition := range conditions {
			of, _, err := unstructured.NestedInt64(condition.(map[string]any), "observedGeneration")
			if err != nil || of != read.GetGeneration() {
				return fmt.Errorf("in generation %d, it has the condition %v", read.GetGeneration(), condition)
			}
		}
		return nil
	})
}
