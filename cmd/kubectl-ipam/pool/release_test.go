package pool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/cascade"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// A pool is released only after its name was typed.
func TestPoolRelease_AsksForTheName(t *testing.T) {
	lab := stage.Ready(gen.Pool("lab"), "10.8.0.0/16", ipamv1alpha1.IPv4, 50, 17)
	doomed := &cascade.Estate{}
	doomed.AddPool(lab, []ipamv1alpha1.IPPool{*gen.Pool("east", gen.ChildOf("lab", 20)), *gen.Pool("rack", gen.ChildOf("east", 24)), *lab})
	if got := doomed.Pools[0].Name + doomed.Pools[1].Name + doomed.Pools[2].Name; got != "rackeastlab" {
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
	must.Do(t, (&removal{Session: s.Session, yes: true}).confirm(t.Context(), doomed, "lab"))
}

// held returns a server with a pool, which it refuses to delete while the stored status says that the pool is in use.
// It calls the function then whenever a watch begins.
func held(t *testing.T, pool *ipamv1alpha1.IPPool, then func(client.Client), others ...client.Object) (c client.WithWatch, refusals *int) {
	t.Helper()
	refusals = new(int)
	return stage.Server(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			stored := &ipamv1alpha1.IPPool{}
			if _, ok := o.(*ipamv1alpha1.IPPool); !ok {
				return c.Delete(ctx, o, opts...)
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), stored); err != nil {
				return err
			}
			if facts.Message(ipamv1alpha1.ConditionInUse, stored.Status.Conditions) != "" {
				*refusals++
				return apierrors.NewInvalid(ipamv1alpha1.GroupVersion.WithKind("IPPool").GroupKind(), o.GetName(), nil)
			}
			return c.Delete(ctx, o, opts...)
		},
		Watch: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			changes, err := c.Watch(ctx, l, opts...)
			then(c)
			return changes, err
		},
	}, append(others, pool)...), refusals
}

// inUse gives a pool the condition InUse with a message.
func inUse(pool *ipamv1alpha1.IPPool, message string) *ipamv1alpha1.IPPool {
	meta.SetStatusCondition(&pool.Status.Conditions, metav1.Condition{
		Type: ipamv1alpha1.ConditionInUse, Status: metav1.ConditionTrue, Reason: string(ipamv1alpha1.ReasonInUse), Message: message,
	})
	return pool
}

// A pool in use is refused. If its status is only outdated, the pool is deleted once the status shows no block. If the
// pool stays in use, it is not deleted, and the error advises --cascade, unless that was given.
func TestPoolRelease_WaitsForAnOutdatedStatus(t *testing.T) {
	for name, tt := range map[string]struct {
		cascade  bool
		then     string
		code     int
		says     string
		refusals int
	}{
		"free then": {false, "", exit.OK, "", 1}, "free then, with cascade": {true, "", exit.OK, "", 1},
		"in use": {false, "a claim", exit.Conflict, "--cascade", 2}, "in use, with cascade": {true, "a claim", exit.Conflict, "pool show lab", 2},
	} {
		pool := inUse(stage.Ready(gen.Pool("lab"), "10.8.0.0/16", ipamv1alpha1.IPv4, 0, 17), "2 claims")
		c, refusals := held(t, pool, func(c client.Client) {
			stored := &ipamv1alpha1.IPPool{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(pool), stored); err == nil {
				if err := c.Update(t.Context(), inUse(stored, tt.then)); err != nil {
					t.Errorf("Update: %v", err)
				}
			}
		})
		testbed.Read(t, c, pool)
		o := &removal{Session: stage.New(t).Session, cascade: tt.cascade, wait: settling}
		err := o.release(t.Context(), c, &cascade.Estate{Pools: []*ipamv1alpha1.IPPool{pool}})
		if exit.CodeOf(err) != tt.code || !strings.Contains(exit.HintOf(err), tt.says) || *refusals < tt.refusals {
			t.Errorf("%s: %v with the hint %q after %d refusals; want to end with %d, %q and %d", name, err, exit.HintOf(err), *refusals, tt.code, tt.says, tt.refusals)
		}
	}
}

// Users who see the holders in other workspaces are told whose blocks keep a pool. Other users are told of none.
func TestPoolRelease_NamesHoldersOfOtherWorkspaces(t *testing.T) {
	t.Parallel()
	of := func(workspace, holder string) space.Holding {
		return space.Holding{Holder: holder, Workspace: workspace}
	}
	lab := inUse(stage.Ready(gen.Pool("lab"), "10.8.0.0/16", ipamv1alpha1.IPv4, 0, 17), "the pool holds 5 blocks")
	own, a := of("", "claim default/own"), of("root:a", "claim default/web of root:a")
	b, c, d := of("root:b", "claim default/db of root:b"), of("root:c", "pool net of root:c"), of("root:d", "claim d/d of root:d")
	for name, tt := range map[string]struct {
		held    []space.Holding
		cascade bool
		hint    string
	}{
		"none that is seen":               {nil, false, "--cascade releases what it holds in this workspace"},
		"none that is seen, with cascade": {nil, true, "blocks of other workspaces stay, and those that came meanwhile: kubectl ipam pool show lab shows what you may see"},
		"of its workspace alone":          {[]space.Holding{own}, false, "--cascade releases what it holds in this workspace"},
		"of another workspace":            {[]space.Holding{own, a}, true, "those of other workspaces release it there: claim default/web of root:a"},
		"of four": {[]space.Holding{own, a, b, c, d}, false,
			"those of other workspaces release it there: claim default/web of root:a, claim default/db of root:b, pool net of root:c, 1 other"},
	} {
		err := (&removal{cascade: tt.cascade}).inUse(lab, &space.Pool{Held: tt.held}, errors.New("refused"))
		if got := exit.HintOf(err); got != tt.hint || exit.CodeOf(err) != exit.Conflict || !strings.Contains(err.Error(), "pool lab is in use: the pool holds 5 blocks") {
			t.Errorf("%s: %v with the hint %q; want %q", name, err, got, tt.hint)
		}
	}
}

// With --cascade, the block of a claim with the policy Retain is released, too, once the server allows it. Only the
// objects that were shown are deleted.
func TestPoolRelease_CascadesToRetainedBlocks(t *testing.T) {
	lab := stage.Ready(gen.Pool("lab"), "10.8.0.0/16", ipamv1alpha1.IPv4, 0, 17)
	claim := stage.Bound(gen.Claim("db", gen.Reclaim(ipamv1alpha1.ReclaimRetain)), "10.8.0.0/28", ipamv1alpha1.PoolRef{Name: "lab"})
	record := gen.Allocation("db", "lab", "10.8.0.0/28", gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	other := gen.Allocation("db", "edge", "10.9.0.0/28", gen.Retained())
	other.Name, other.UID = "other", "other"
	var unsafe []string
	c := stage.Server(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if given := (&client.DeleteOptions{}).ApplyOptions(opts); given.Preconditions == nil || given.Preconditions.UID == nil || *given.Preconditions.UID != o.GetUID() {
				unsafe = append(unsafe, o.GetName())
			}
			stored := &ipamv1alpha1.IPAllocation{}
			if o.GetName() == record.Name && c.Get(ctx, client.ObjectKeyFromObject(record), stored) == nil && stored.Spec.ClaimRef != nil {
				return apierrors.NewInvalid(ipamv1alpha1.GroupVersion.WithKind("IPAllocation").GroupKind(), o.GetName(), nil)
			}
			return c.Delete(ctx, o)
		},
		Watch: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			changes, err := c.Watch(ctx, l, opts...)
			stored := &ipamv1alpha1.IPAllocation{}
			if c.Get(ctx, client.ObjectKeyFromObject(record), stored) == nil && stored.Spec.ClaimRef != nil {
				stored.Spec.ClaimRef = nil
				err = errors.Join(err, c.Update(ctx, stored))
			}
			return changes, err
		},
	}, lab, claim, record, other)
	doomed := must.Get(cascade.OfPool(t.Context(), c, lab))(t)
	if got, want := doomed.String(), "pool lab (10.8.0.0/16), 1 claim, 1 retained block"; got != want {
		t.Errorf("with the pool go %q; want %q", got, want)
	}
	must.Do(t, (&removal{Session: stage.New(t).Session, cascade: true, wait: time.Minute}).release(t.Context(), c, doomed))
	left := &ipamv1alpha1.IPAllocationList{}
	if err := c.List(t.Context(), left); err != nil || len(left.Items) != 1 || left.Items[0].Name != "other" {
		t.Errorf("the records left are %+v, %v; want the one of the other pool", left.Items, err)
	}
	if len(unsafe) > 0 {
		t.Errorf("%v were deleted without their UID", unsafe)
	}
}

// --wait limits only the wait for the pool. The releases of its claims may take longer.
func TestPoolRelease_LimitsOnlyTheWaitForThePool(t *testing.T) {
	lab := stage.Ready(gen.Pool("lab"), "10.8.0.0/16", ipamv1alpha1.IPv4, 0, 17)
	objects := []client.Object{lab}
	for i := range 200 {
		objects = append(objects, stage.Bound(gen.Claim(fmt.Sprint("c", i)), fmt.Sprintf("10.8.0.%d/32", i), ipamv1alpha1.PoolRef{Name: "lab"}))
	}
	const wait = 50 * time.Millisecond
	began := time.Now()
	c := stage.Server(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if _, ok := o.(*ipamv1alpha1.IPClaim); ok {
				<-time.After(wait / 5)
			}
			return c.Delete(ctx, o, opts...)
		},
	}, objects...)
	s := stage.New(t)
	must.Do(t, (&removal{Session: s.Session, cascade: true, wait: wait}).release(t.Context(), c, must.Get(cascade.OfPool(t.Context(), c, lab))(t)))
	if took := time.Since(began); took < wait || !strings.Contains(s.Said.String(), "pool lab (10.8.0.0/16), 200 claims released") {
		t.Errorf("it took %s, and says %q; want more than %s, and 200 claims", took, s.Said, wait)
	}
}

// While the blocks of a pool are being freed, the command waits however long this takes, unless the user has set a
// limit.
func TestPoolRelease_WaitsWhileBlocksAreFreed(t *testing.T) {
	for name, tt := range map[string]struct {
		whole bool
		code  int
	}{"for so long as it takes": {false, exit.OK}, "for as long as the user says": {true, exit.Conflict}} {
		s := stage.New(t)
		synctest.Test(t, func(t *testing.T) {
			pool := inUse(stage.Ready(gen.Pool("lab"), "10.8.0.0/16", ipamv1alpha1.IPv4, 0, 17), "claims")
			objects := []client.Object{pool}
			for i := range 5 {
				objects = append(objects, gen.Allocation(fmt.Sprint("c", i), "lab", fmt.Sprintf("10.8.0.%d/32", i)))
			}
			c, _ := held(t, pool, func(client.Client) {}, objects[1:]...)
			testbed.Read(t, c, pool)
			o := &removal{Session: s.Session, cascade: true, wait: 30 * time.Second, whole: tt.whole}
			ended := make(chan error, 1)
			go func() { ended <- o.release(t.Context(), c, &cascade.Estate{Pools: []*ipamv1alpha1.IPPool{pool}}) }()
			for i, record := range objects[1:] {
				<-time.After(20 * time.Second)
				must.Do(t, c.Delete(t.Context(), record))
				stored := pool.DeepCopy()
				testbed.Read(t, c, stored)
				if inUse(stored, fmt.Sprintf("%d claims fewer", i+1)); i == 4 {
					meta.RemoveStatusCondition(&stored.Status.Conditions, ipamv1alpha1.ConditionInUse)
				}
				must.Do(t, c.Update(t.Context(), stored))
			}
			if err := <-ended; exit.CodeOf(err) != tt.code {
				t.Errorf("%s: release ends with %d, %v; want %d", name, exit.CodeOf(err), err, tt.code)
			}
		})
	}
}
