package pool

import (
	"bufio"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// A pool goes when its name was typed, and not before.
func TestPoolRelease_Confirm(t *testing.T) {
	lab := stage.Ready(gen.Pool("lab"), "10.8.0.0/16", ipamv1alpha1.IPv4, 50, 17)
	doomed := &estate{names: map[string]bool{}}
	doomed.add(lab, []ipamv1alpha1.IPPool{*gen.Pool("east", gen.ChildOf("lab", 20)), *gen.Pool("rack", gen.ChildOf("east", 24)), *lab})
	if got := doomed.pools[0].Name + doomed.pools[1].Name + doomed.pools[2].Name; got != "rackeastlab" {
		t.Errorf("the pools go in the order %s; want the leaves first", got)
	}
	for typed, want := range map[string]int{"lab\n": exit.OK, "east\n": exit.Aborted, "\n": exit.Aborted, "": exit.Aborted, "lab": exit.OK} {
		s := stage.New(t)
		s.Asks = true
		err := (&removal{Session: s.Session, typed: bufio.NewReader(strings.NewReader(typed))}).confirm(t.Context(), doomed, "lab")
		if exit.CodeOf(err) != want {
			t.Errorf("%q typed: %v; want to end with %d", typed, err, want)
		}
		if want := "pool lab (10.8.0.0/16), 2 carved from it"; !strings.Contains(s.Said.String(), want) {
			t.Errorf("the question is %q; want it to name %q", s.Said, want)
		}
	}
	s := stage.New(t)
	if err := (&removal{Session: s.Session}).confirm(t.Context(), doomed, "lab"); exit.CodeOf(err) != exit.Aborted ||
		!strings.Contains(err.Error(), "stdin is not a terminal: pass --yes") {
		t.Errorf("without a terminal: %v; want to end with %d and to name --yes", err, exit.Aborted)
	}
	if err := (&removal{Session: s.Session, yes: true}).confirm(t.Context(), doomed, "lab"); err != nil {
		t.Errorf("with --yes: %v", err)
	}
}

// A pool whose status follows its use by a moment seems to be empty, and is refused. Its claims are
// being released, so it is deleted when they are gone.
func TestPoolRelease_StatusLags(t *testing.T) {
	pool, refusals := stage.Ready(gen.Pool("lab"), "10.8.0.0/16", ipamv1alpha1.IPv4, 0, 17), 0
	says := func(ctx context.Context, c client.Client, reason ipamv1alpha1.Reason) {
		stored := &ipamv1alpha1.IPPool{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(pool), stored); err != nil {
			t.Errorf("Get: %v", err)
		}
		meta.SetStatusCondition(&stored.Status.Conditions, metav1.Condition{
			Type: ipamv1alpha1.ConditionInUse, Status: metav1.ConditionTrue, Reason: string(reason),
		})
		if err := c.Update(ctx, stored); err != nil {
			t.Errorf("Update: %v", err)
		}
	}
	c := stage.Server(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if refusals++; refusals == 1 {
				says(ctx, c, ipamv1alpha1.ReasonInUse)
				return apierrors.NewInvalid(ipamv1alpha1.GroupVersion.WithKind("IPPool").GroupKind(), o.GetName(), nil)
			}
			return c.Delete(ctx, o, opts...)
		},
		Watch: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			changes, err := c.Watch(ctx, l, opts...)
			says(ctx, c, ipamv1alpha1.ReasonUnused)
			return changes, err
		},
	}, pool)
	if err := deletePool(t.Context(), c, pool); err != nil || refusals != 2 {
		t.Errorf("deletePool = %v after %d deletions, want nil after a second one", err, refusals)
	}
}

// A pool that seems to be in use, as its last claim was released a moment ago, is not refused before its status could
// follow. One that stays in use is.
func TestPoolRelease_StatusIsToFollow(t *testing.T) {
	for name, tt := range map[string]struct {
		then ipamv1alpha1.Reason
		want int
	}{"free then": {ipamv1alpha1.ReasonUnused, exit.OK}, "in use": {ipamv1alpha1.ReasonInUse, exit.Conflict}} {
		pool := stage.Ready(gen.Pool("lab"), "10.8.0.0/16", ipamv1alpha1.IPv4, 0, 17)
		says := func(reason ipamv1alpha1.Reason) {
			meta.SetStatusCondition(&pool.Status.Conditions, metav1.Condition{
				Type: ipamv1alpha1.ConditionInUse, Status: metav1.ConditionTrue, Reason: string(reason),
			})
		}
		says(ipamv1alpha1.ReasonInUse)
		shown := pool.DeepCopy()
		c := stage.Server(t, interceptor.Funcs{
			Watch: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
				changes, err := c.Watch(ctx, l, opts...)
				says(tt.then)
				if err := c.Update(ctx, pool); err != nil {
					t.Errorf("Update: %v", err)
				}
				return changes, err
			},
		}, pool)
		testbed.Read(t, c, pool)
		if err := emptied(t.Context(), c, shown); exit.CodeOf(err) != tt.want {
			t.Errorf("%s: %v; want to end with %d", name, err, tt.want)
		}
	}
}

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
