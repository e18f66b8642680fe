package pool

import (
	"bufio"
	"context"
	"strings"
	"testing"

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
	doomed := &estate{}
	doomed.addPools(lab, []ipamv1alpha1.IPPool{*gen.Pool("east", gen.ChildOf("lab", 20)), *gen.Pool("rack", gen.ChildOf("east", 24)), *lab})
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
		if err := c.Status().Update(ctx, stored); err != nil {
			t.Errorf("Update: %v", err)
		}
	}
	c := testbed.NewClient(t).WithObjects(pool).WithStatusSubresource(pool).
		WithIndex(pool, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if refusals++; refusals == 1 {
					says(ctx, c, ipamv1alpha1.ReasonInUse)
					return apierrors.NewInvalid(ipamv1alpha1.GroupVersion.WithKind("IPPool").GroupKind(), o.GetName(), nil)
				}
				return c.Delete(ctx, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				err := c.List(ctx, l, opts...)
				l.SetResourceVersion("1") // which the fake leaves out, and a watch begins with
				return err
			},
			Watch: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
				changes, err := c.Watch(ctx, l, opts...)
				says(ctx, c, ipamv1alpha1.ReasonUnused)
				return changes, err
			},
		}).Build()
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
		c := testbed.NewClient(t).WithObjects(pool).WithStatusSubresource(pool).
			WithIndex(pool, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} }).
			WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					err := c.List(ctx, l, opts...)
					l.SetResourceVersion("1")
					return err
				},
				Watch: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
					changes, err := c.Watch(ctx, l, opts...)
					says(tt.then)
					if err := c.Status().Update(ctx, pool); err != nil {
						t.Errorf("Update: %v", err)
					}
					return changes, err
				},
			}).Build()
		testbed.Read(t, c, pool)
		if err := emptied(t.Context(), c, shown); exit.CodeOf(err) != tt.want {
			t.Errorf("%s: %v; want to end with %d", name, err, tt.want)
		}
	}
}
