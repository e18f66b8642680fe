package pool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// The block of a claim with the policy Retain is retained at once, or some time after the claim was
// deleted. It goes as well, and what is deleted is what was seen.
func TestPoolRelease_CascadeRetained(t *testing.T) {
	t.Run("at once", func(t *testing.T) { cascadeRetained(t, true) })
	t.Run("later", func(t *testing.T) { cascadeRetained(t, false) })
}

func cascadeRetained(t *testing.T, atOnce bool) {
	lab := stage.Ready(gen.Pool("lab"), "10.8.0.0/16", ipamv1alpha1.IPv4, 0, 17)
	claim := stage.Bound(gen.Claim("db", gen.Reclaim(ipamv1alpha1.ReclaimRetain)), "10.8.0.0/28", ipamv1alpha1.PoolRef{Name: "lab"})
	record := gen.Allocation("db", "lab", "10.8.0.0/28", gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	other := gen.Allocation("db", "edge", "10.9.0.0/28", gen.Retained())
	other.Name, other.UID = "other", "other"
	var unsafe []string
	retain := func(ctx context.Context, c client.Client) error {
		stored := &ipamv1alpha1.IPAllocation{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(record), stored); err != nil || stored.Spec.ClaimRef == nil {
			return client.IgnoreNotFound(err)
		}
		stored.Spec.ClaimRef = nil
		return c.Update(ctx, stored)
	}
	c := stage.Server(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if given := (&client.DeleteOptions{}).ApplyOptions(opts); given.Preconditions == nil || given.Preconditions.UID == nil || *given.Preconditions.UID != o.GetUID() {
				unsafe = append(unsafe, o.GetName())
			}
			err := c.Delete(ctx, o)
			if atOnce && o.GetName() == claim.Name {
				err = errors.Join(err, retain(ctx, c))
			}
			return err
		},
		Watch: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			changes, err := c.Watch(ctx, l, opts...)
			return changes, errors.Join(err, retain(ctx, c))
		},
	}, lab, claim, record, other)
	doomed, err := estateOf(t.Context(), c, lab)
	if err != nil {
		t.Fatalf("estateOf: %v", err)
	}
	s := stage.New(t)
	if err := (&removal{Session: s.Session, cascade: true}).release(t.Context(), c, doomed); err != nil {
		t.Fatalf("release: %v", err)
	}
	left := &ipamv1alpha1.IPAllocationList{}
	if err := c.List(t.Context(), left); err != nil || len(left.Items) != 1 || left.Items[0].Name != "other" {
		t.Errorf("the records left are %+v, %v; want the one of the other pool", left.Items, err)
	}
	if len(unsafe) > 0 {
		t.Errorf("%v were deleted without their UID", unsafe)
	}
}

// A pool that stays in use is no reason to give --cascade, when it was given.
func TestPoolRelease_CascadeInUse(t *testing.T) {
	lab := stage.Ready(gen.Pool("lab"), "10.8.0.0/16", ipamv1alpha1.IPv4, 0, 17)
	lab.Status.Conditions = append(lab.Status.Conditions, metav1.Condition{
		Type: ipamv1alpha1.ConditionInUse, Status: metav1.ConditionTrue, Reason: string(ipamv1alpha1.ReasonInUse), Message: "1 block of other workspaces",
	})
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	err := deletePool(ctx, stage.Server(t, interceptor.Funcs{}, lab), lab)
	if exit.CodeOf(err) != exit.Conflict || strings.Contains(exit.HintOf(err), "--cascade") || !strings.Contains(exit.HintOf(err), "pool show lab") {
		t.Errorf("it ends with %v and the hint %q", err, exit.HintOf(err))
	}
}
