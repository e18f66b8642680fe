package release

import (
	"context"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A block that changes while its holder is asked for is not freed. The next attempt frees it.
func TestSettle_FreesNoBlockThatChangesMeanwhile(t *testing.T) {
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

// A record is deleted or changed only if it is as it was read. If somebody changes it in between, Settle fails with a
// conflict, and record and block stay.
func TestSettle_KeepsARecordThatChangesMeanwhile(t *testing.T) {
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

// A kcp that was restored from a backup lists neither the claims nor the bindings that are newer than the backup. Lists
// may leave out both a claim and the binding of its workspace. Then the claim's block is freed only if somebody saw the
// binding go.
func TestSettle_FreesTheBlockOfAMissedClaimOnlyIfTheUnbindWasSeen(t *testing.T) {
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

// If a list left out a claim, its block is freed only if its record is there: then the server has known the claim.
// Without a record the block stays until the sweep suspects the claim.
func TestSettle_KeepsTheBlockOfAMissedClaimWithoutARecord(t *testing.T) {
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

// A reconcile with a stale cache may store the record of a claim that was deleted before, or that a restored kcp never
// knew. So the server tells whether the claim existed then. If it did not, Settle deletes the record, since it would seem
// to prove something later, and leaves the block to the sweep. If the server does not know, a record counts that was
// stored long before its claim was missed, or whose block is to be retained.
func TestSettle_DistrustsANewRecordOfAMissedClaim(t *testing.T) {
	for _, tt := range []struct {
		name            string
		age             time.Duration // of the record, when the claim was missed
		policy          ledger.ReclaimPolicy
		unseen          bool // no cache showed the claim
		unhinted        bool // only a request asks about it
		past            *bool
		changed         bool // a user has changed the record since
		freed, recorded bool
	}{
		{name: "older", age: relisting + time.Second, policy: ledger.Delete, freed: true},
		{name: "stored shortly before", age: relisting, policy: ledger.Delete},
		{name: "stored after the list", age: -time.Second, policy: ledger.Delete},
		{name: "older, its claim never shown", age: relisting + time.Second, policy: ledger.Delete, unseen: true, freed: true},
		{name: "stored shortly before, its claim never shown", policy: ledger.Delete, unseen: true},
		{name: "older, a request asks", age: relisting + time.Second, policy: ledger.Delete, unhinted: true, freed: true},
		{name: "stored shortly before a request asks", age: relisting, policy: ledger.Delete, unhinted: true},
		{name: "to be retained", policy: ledger.Retain, recorded: true},
		{name: "stored for a claim that existed", policy: ledger.Delete, past: new(true), freed: true},
		{name: "stored for a claim that did not exist", policy: ledger.Delete, past: new(false)},
		{name: "a request asks, of a claim that existed", policy: ledger.Delete, past: new(true), unhinted: true, freed: true},
		{name: "a request asks, of a claim that did not exist", policy: ledger.Delete, past: new(false), unhinted: true},
		{name: "to be retained, of a claim that existed", policy: ledger.Retain, past: new(true), recorded: true},
		{name: "to be retained, of a claim that did not exist", policy: ledger.Retain, past: new(false)},
		{name: "to be retained, changed since", policy: ledger.Retain, past: new(false), changed: true, recorded: true},
		{name: "older, of a claim that did not exist", age: relisting + time.Second, policy: ledger.Delete, past: new(false)},
		{name: "older, to be retained, of a claim that did not exist", age: relisting + time.Second, policy: ledger.Retain, past: new(false)},
		{name: "older, changed since", age: relisting + time.Second, policy: ledger.Delete, past: new(false), changed: true, freed: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			record := gen.Allocation("c", "p", "10.0.0.0/28")
			s := newScene(t)
			record.CreationTimestamp = metav1.NewTime(s.clock.Now().Add(-tt.age))
			must.Do(t, s.workspace.Create(t.Context(), record))
			s.ledger.block.Policy, s.oracle.past = tt.policy, tt.past
			if tt.changed {
				record.Generation++
				must.Do(t, s.workspace.Update(t.Context(), record))
			}
			s.Missed(s.holder, gen.Claim("c"))
			if tt.unseen {
				s.forget(s.holder.Claim, s.seen(s.holder.Claim).number)
				s.Missed(s.holder, nil)
			}
			s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace}
			if tt.unhinted {
				s.forget(s.holder.Claim, s.seen(s.holder.Claim).number)
			} else {
				s.clock.SetTime(s.clock.Now().Add(time.Hour)) // the servers could not be asked before
			}
			foreseen := must.Get(s.GoneWitnessed(t.Context(), s.holder))(t)
			if !tt.unhinted {
				must.Get(s.Reconcile(t.Context(), s.holder))(t)
			}
			must.Get(s.SettleWitnessed(t.Context(), s.holder))(t)
			if s.ledger.released != tt.freed || (s.record(t) != nil) != tt.recorded {
				t.Errorf("freed = %t, record = %v; want %t, one: %t", s.ledger.released, s.record(t), tt.freed, tt.recorded)
			}
			if tt.policy == ledger.Delete && foreseen != tt.freed {
				t.Errorf("GoneWitnessed = %t, want %t", foreseen, tt.freed)
			}
		})
	}
}

// A claim is missed twice, and the second hint does not have the claim. The claim of the first hint is kept. If the
// first hint is forgotten, the second is not.
func TestMissed_KeepsTheClaimOfAnEarlierHint(t *testing.T) {
	s := newScene(t)
	s.Missed(s.holder, gen.Claim("c"))
	first := s.seen(s.holder.Claim)
	s.Missed(s.holder, nil)
	s.forget(s.holder.Claim, first.number)
	if now := s.seen(s.holder.Claim); !now.missed || now.claim != first.claim || now.at != first.at {
		t.Errorf("seen is %+v, want the claim of %+v, under another number", now, first)
	}
}

// The record of a claim that never showed a block may be stored after the claim was deleted or missed, while the hint of
// that is not settled. The record is deleted, as the ledger has nothing of the claim.
func TestMissed_FindsTheRecordOfAClaimThatShowedNoBlock(t *testing.T) {
	for name, hint := range map[string]func(*scene){
		"the claim was deleted": func(s *scene) { s.Deleted(s.holder, gen.Claim("c"), nil) },
		"the claim was missed":  func(s *scene) { s.Missed(s.holder, gen.Claim("c")) },
	} {
		s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
		s.ledger.released = true
		hint(s)
		s.Missed(s.holder, nil)
		if !s.settle(t, live.Gone) || s.record(t) != nil {
			t.Errorf("%s: the record is %v, want none", name, s.record(t))
		}
	}
}

// A server that starts may serve claims before it serves records. Its 404 about a record does not say that there is
// none: Settle fails, and frees nothing.
func TestSettle_FailsWhileRecordsAreNotServed(t *testing.T) {
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
