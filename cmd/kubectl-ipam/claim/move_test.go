package claim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

var (
	moveFrom = client.ObjectKey{Namespace: "default", Name: "web"}
	moveTo   = client.ObjectKey{Namespace: "shop", Name: "front"}
)

// errAway is the error if a request, or the answer to it, was lost.
var errAway = errors.New("the server is away")

// moves is a server that answers claims as the controller does. The new claim is in line once a change to it was
// answered. If it is in line when the old claim is released, it gets the block.
type moves struct {
	client.WithWatch
	writes   int
	failAt   int  // the number of the write that fails; 0: none does
	lost     bool // the write is done, and only its answer is lost
	deleted  ipamv1alpha1.ReclaimPolicy
	finished bool
}

func newMoves(t *testing.T, source *ipamv1alpha1.IPClaim) *moves {
	t.Helper()
	m := &moves{}
	m.WithWatch = stage.Server(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return m.write(func() error {
				claim := o.(*ipamv1alpha1.IPClaim)
				claim.Generation, claim.UID = 1, "uid-of-front"
				stage.Waiting(claim, ipamv1alpha1.ReasonAddressInUse, claim.Spec.Address+" is taken")
				claim.Status.ObservedGeneration = 1
				return c.Create(ctx, claim, opts...)
			})
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return m.write(func() error {
				if err := c.Patch(ctx, o, p, opts...); err != nil {
					return err
				}
				claim := o.(*ipamv1alpha1.IPClaim)
				claim.Generation++
				claim.Status.ObservedGeneration = claim.Generation
				return c.Update(ctx, claim)
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return m.write(func() error {
				m.deleted = o.(*ipamv1alpha1.IPClaim).Spec.ReclaimPolicy
				if err := c.Delete(ctx, o, opts...); err != nil {
					return err
				}
				target := &ipamv1alpha1.IPClaim{}
				if err := c.Get(ctx, moveTo, target); err != nil || target.Generation < 2 {
					return fmt.Errorf("another claim gets the block: the new one is of generation %d, %w", target.Generation, err)
				}
				m.finished = true
				return c.Update(ctx, stage.Bound(target, source.Status.AllocatedCIDR, *source.Status.PoolRef))
			})
		},
	}, source)
	return m
}

func (m *moves) write(do func() error) error {
	m.writes++
	if m.writes == m.failAt && !m.lost {
		return errAway
	}
	if err := do(); m.writes != m.failAt || err != nil {
		return err
	}
	return errAway
}

// heldBy returns a bound claim with an address and this reclaim policy.
func heldBy(policy ipamv1alpha1.ReclaimPolicy) *ipamv1alpha1.IPClaim {
	source := stage.Bound(gen.Claim("web", gen.OfClass("internal"), gen.Length(32), gen.Reclaim(policy)), "10.0.0.5/32", stage.OfPlatform("edge"))
	source.Generation, source.Status.Address = 1, "10.0.0.5"
	source.Labels = map[string]string{"team": "web"}
	source.Annotations = map[string]string{ipamv1alpha1.AnnotationDescription: "the shop", "kcp.io/cluster": "abc"}
	return source
}

// If a claim asked for a number, its successor asks for the address instead, which is that of the number.
func TestSuccessor_AsksForTheAddressOfANumber(t *testing.T) {
	source := heldBy("")
	source.Spec.Number = new(int64(5))
	if spec := successor(source, moveTo).Spec; spec.Number != nil || spec.Address != "10.0.0.5" {
		t.Errorf("the new claim asks for address %q and number %v, want 10.0.0.5 alone", spec.Address, spec.Number)
	}
}

// The new claim has the address and all fields of the old one. The old claim is released once the new one is in line,
// and its block is not retained. If any request fails, or gets no answer, the command says so, and goes on when it is
// run again.
func TestMove_GoesOnAfterEachFailure(t *testing.T) {
	for _, policy := range []ipamv1alpha1.ReclaimPolicy{"", ipamv1alpha1.ReclaimDelete, ipamv1alpha1.ReclaimRetain} {
		for failAt := range 6 {
			for _, lost := range []bool{false, true} {
				m := newMoves(t, heldBy(policy))
				m.failAt, m.lost = failAt, lost
				o := &move{Session: stage.New(t).Session, wait: time.Minute}
				target, err := o.move(t.Context(), m, moveFrom, moveTo)
				if failed := m.writes >= failAt && failAt > 0; failed != (err != nil) {
					t.Errorf("policy %q, write %d fails: move = %v; want an error: %t", policy, failAt, err, failed)
				}
				if err != nil {
					if failAt > 1 && !strings.Contains(err.Error(), "run it again, and it goes on") {
						t.Errorf("policy %q, write %d fails: move = %v; want it to say how it goes on", policy, failAt, err)
					}
					target, err = o.move(t.Context(), m, moveFrom, moveTo)
				}
				if err != nil || !m.finished || m.deleted != ipamv1alpha1.ReclaimDelete {
					t.Errorf("policy %q, write %d fails, lost %t: %v, finished %t, the old claim had the policy %q; want it released with Delete",
						policy, failAt, lost, err, m.finished, m.deleted)
					continue
				}
				if target.Status.AllocatedCIDR != "10.0.0.5/32" || target.Spec.Address != "10.0.0.5" || target.Spec.PrefixLength != 0 || target.Spec.ReclaimPolicy != policy ||
					target.Spec.ClassName != "internal" || target.Labels["team"] != "web" || target.Annotations[ipamv1alpha1.AnnotationDescription] != "the shop" || len(target.Annotations) != 2 {
					t.Errorf("policy %q: the new claim is %+v, %+v; want the address and all that the old one had", policy, target.ObjectMeta, target.Spec)
				}
				if _, err := o.move(t.Context(), m, moveFrom, moveTo); err != nil {
					t.Errorf("once it is done, move = %v; want no error", err)
				}
			}
		}
	}
}

// A claim is not moved over another one, nor if it has no block to move. A missing claim is not found.
func TestMove_Refuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(source *ipamv1alpha1.IPClaim) (there *ipamv1alpha1.IPClaim)
		code   int
		says   string
	}{
		"a claim without a block": {func(s *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPClaim {
			stage.Waiting(s, ipamv1alpha1.ReasonPoolExhausted, "full")
			return nil
		}, 7, "has no block: PoolExhausted"},
		"a range": {func(s *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPClaim {
			s.Spec.Target = ipamv1alpha1.TargetScopeRange
			return nil
		}, exit.Invalid, "cannot be moved"},
		"to a name in use": {func(s *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPClaim {
			return stage.Bound(gen.Claim("front"), "10.0.0.6/32", *s.Status.PoolRef)
		}, exit.Conflict, "there is a claim shop/front already"},
		"to a claim that waits for another address": {func(*ipamv1alpha1.IPClaim) *ipamv1alpha1.IPClaim {
			return stage.Waiting(gen.Claim("front", gen.Address("10.0.0.7")), ipamv1alpha1.ReasonAddressInUse, "taken")
		}, exit.Conflict, "does not wait for 10.0.0.5/32"},
	} {
		source := heldBy("")
		there := tt.change(source)
		m := newMoves(t, source)
		if there != nil {
			there.Namespace = "shop"
			must.Do(t, m.WithWatch.(client.Client).Create(t.Context(), there))
			m.writes = 0
			if there.Spec.Address == "" {
				must.Do(t, m.Update(t.Context(), stage.Bound(there, "10.0.0.6/32", *source.Status.PoolRef)))
			}
		}
		_, err := (&move{Session: stage.New(t).Session, wait: time.Minute}).move(t.Context(), m, moveFrom, moveTo)
		if exit.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) || m.writes > 0 {
			t.Errorf("%s: move = %v after %d writes; want code %d, %q, and none", name, err, m.writes, tt.code, tt.says)
		}
	}
	m := newMoves(t, heldBy(""))
	if _, err := (&move{Session: stage.New(t).Session}).move(t.Context(), m, client.ObjectKey{Namespace: "default", Name: "wbe"}, moveTo); !apierrors.IsNotFound(err) {
		t.Errorf("of a missing claim, move = %v; want not found", err)
	}
}

// A pinned claim keeps its block when it is deleted. The command says which claim can get the block then, and for how
// long.
func TestPin_SaysWhichClaimGetsTheBlock(t *testing.T) {
	class := gen.Class("internal")
	class.Spec.RetentionLease = "24h"
	for retained, want := range map[ipamv1alpha1.RetainedPolicy]string{
		"":                         "class and length gets it, with spec.retainedPolicy Reuse, within 24h",
		ipamv1alpha1.RetainedReuse: "class and length gets it, as its class says, within 24h",
	} {
		class.Spec.RetainedPolicy = retained
		s := stage.New(t)
		c := stage.Server(t, interceptor.Funcs{}, heldBy(""), class.DeepCopy())
		must.Do(t, pin(t.Context(), s.Session, c, moveFrom, &output.Printer{}))
		claim := &ipamv1alpha1.IPClaim{}
		must.Do(t, c.Get(t.Context(), moveFrom, claim))
		if claim.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimRetain || s.Printed.String() != "10.0.0.5/32\n" || !strings.Contains(s.Said.String(), want) {
			t.Errorf("the claim has the policy %q, and pin says %q and prints %q; want Retain, %q and the block", claim.Spec.ReclaimPolicy, s.Said, s.Printed, want)
		}
	}
}

// If a claim is deleted, and finalizers of others hold it, the output names these, and says for how long they have held
// it.
func TestShow_NamesTheFinalizer(t *testing.T) {
	claim := heldBy("")
	claim.DeletionTimestamp, claim.Finalizers = &metav1.Time{Time: stage.Noon.Add(-5 * time.Minute)}, []string{"example.com/backup"}
	s := stage.New(t)
	describeClaim(s.Session, claim, nil)
	if want := "Phase:        Releasing, held by finalizer example.com/backup for 5 min\n"; !strings.Contains(s.Printed.String(), want) {
		t.Errorf("claim show prints\n%s\nwant %q", s.Printed, want)
	}
	s = stage.New(t)
	must.Do(t, explainReleasing(s.Session, claim))
	if want := "claim default/web is Releasing, held by finalizer example.com/backup for 5 min; it holds 10.0.0.5/32 until it is gone\n"; s.Printed.String() != want {
		t.Errorf("why prints %q; want %q", s.Printed, want)
	}
}
