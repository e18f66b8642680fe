package release

import (
	"context"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A block is freed as it was when its holder was asked for, or not at all.
func TestSettle_ABlockThatChangesMeanwhileStays(t *testing.T) {
	s := newScene(t)
	s.oracle.asked = func() { s.ledger.block.Revision++ }
	if s.settle(t, live.Gone) || s.ledger.released {
		t.Errorf("released = %t, want another look", s.ledger.released)
	}
	s.oracle.asked = nil
	if !s.settle(t, live.Gone) || !s.ledger.released || s.ledger.cause != ledger.CauseReleased {
		t.Errorf("freed at the next look: %t, because of %q; want it freed because of %q", s.ledger.released, s.ledger.cause, ledger.CauseReleased)
	}
}

// Records are deleted and changed exactly as they were read. One that somebody has
// changed since stays, and so does its block.
func TestSettle_ARecordThatChangesMeanwhileStays(t *testing.T) {
	for _, policy := range []ledger.ReclaimPolicy{ledger.Delete, ledger.Retain} {
		t.Run(string(policy), func(t *testing.T) {
			exact := false
			s := newSceneWith(t, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if err := c.Get(ctx, key, obj, opts...); err != nil {
						return err
					}
					changed := obj.DeepCopyObject().(client.Object)
					changed.SetLabels(map[string]string{"changed": "meanwhile"})
					return c.Update(ctx, changed)
				},
				Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
					given := (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions
					exact = given != nil && given.UID != nil && *given.UID == obj.GetUID() &&
						given.ResourceVersion != nil && *given.ResourceVersion == obj.GetResourceVersion()
					if !exact {
						return c.Delete(ctx, obj)
					}
					return apierrors.NewConflict(ipamv1alpha1.GroupVersion.WithResource("ipallocations").GroupResource(), obj.GetName(), nil)
				},
			}, gen.Allocation("c", "p", "10.0.0.0/28"))
			s.ledger.block.Policy = policy
			s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace}
			if _, err := s.Settle(t.Context(), s.holder); !apierrors.IsConflict(err) {
				t.Errorf("settle = %v, want a conflict", err)
			}
			record := s.record(t)
			if s.ledger.released || record == nil || record.Spec.ClaimRef == nil {
				t.Errorf("released = %t, record = %v", s.ledger.released, record)
			}
			if policy == ledger.Delete && !exact {
				t.Error("the record was not deleted with its UID and resourceVersion as preconditions")
			}
		})
	}
}

// Of a kcp that was restored from a backup, a list leaves out the newer claims of a newer workspace, and
// another list the workspace's binding. Neither says that they were deleted.
func TestSettle_AMissedClaimOfAMissedWorkspace(t *testing.T) {
	for name, tt := range map[string]struct {
		departed, want bool
	}{
		"nobody saw its binding go":  {},
		"its binding was seen to go": {departed: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.Missed(s.holder, gen.Claim("c"))
			if tt.departed {
				s.Departed("w")
			}
			for range 3 {
				s.settle(t, live.Unbound)
				s.clock.SetTime(s.clock.Now().Add(time.Minute))
			}
			if s.ledger.released != tt.want {
				t.Errorf("released = %t, want %t", s.ledger.released, tt.want)
			}
		})
	}
}

// That a list left out a claim frees its block only where the record shows that the
// server has known it.
func TestSettle_AMissedClaim(t *testing.T) {
	recorded := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
	recorded.Missed(recorded.holder, gen.Claim("c"))
	if !recorded.settle(t, live.Gone) || !recorded.ledger.released || recorded.record(t) != nil {
		t.Errorf("with a record: released = %t", recorded.ledger.released)
	}

	unknown := newScene(t)
	unknown.Missed(unknown.holder, gen.Claim("c"))
	unknown.oracle.answer = live.Answer{Verdict: live.Gone, Client: unknown.workspace}
	if _, err := unknown.Reconcile(t.Context(), unknown.holder); err != nil || unknown.ledger.released {
		t.Errorf("without: released = %t, %v; want it left to the sweep", unknown.ledger.released, err)
	}
	unknown.Suspect(unknown.holder) // by the sweep
	if _, err := unknown.Reconcile(t.Context(), unknown.holder); err != nil || !unknown.ledger.released {
		t.Errorf("suspected by the sweep: released = %t, %v", unknown.ledger.released, err)
	}
}

// A server that starts may serve claims before it serves records. Its 404 about a
// record does not say that there is none.
func TestSettle_ARecordNotServedIsNotGone(t *testing.T) {
	notServed := apierrors.NewGenericServerResponse(http.StatusNotFound, "GET",
		schema.GroupResource{Group: "ipam.miloapis.com", Resource: records}, "alloc-x", "404 page not found", 0, true)
	for _, tt := range []struct {
		name   string
		policy ledger.ReclaimPolicy
		funcs  interceptor.Funcs
	}{
		{"when read", ledger.Retain, interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return notServed
			},
		}},
		{"when deleted", ledger.Delete, interceptor.Funcs{
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				return notServed
			},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSceneWith(t, tt.funcs, gen.Allocation("c", "p", "10.0.0.0/28"))
			s.ledger.block.Policy = tt.policy
			s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace}
			if settled, err := s.Settle(t.Context(), s.holder); settled || err == nil || s.ledger.released {
				t.Errorf("settled = %t, error = %v, released = %t; want an error and nothing freed", settled, err, s.ledger.released)
			}
		})
	}
}
