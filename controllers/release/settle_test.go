package release

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

func TestSettle_FreesNothingInDoubt(t *testing.T) {
	for name, verdict := range map[string]live.Verdict{
		"alive": live.Alive, "unknown": live.Unknown, "unbound once": live.Unbound, "no endpoint, not seen to go": live.NoEndpoint,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
			if settled := s.settle(t, verdict); settled != (verdict == live.Alive) {
				t.Errorf("settled = %t", settled)
			}
			if s.ledger.released || s.record(t) == nil {
				t.Error("something was taken away")
			}
		})
	}
}

// A hint may name another object than the block's holder. If a server were asked for that object, the holder would seem
// to be gone. So Settle asks for the holder that the ledger names.
func TestSettle_AsksForTheHolderInTheLedger(t *testing.T) {
	s := newScene(t)
	for _, wrong := range []ledger.Holder{
		{Claim: s.holder.Claim, Cluster: s.holder.Cluster, Namespace: s.holder.Namespace, Name: "another"},
		{Claim: s.holder.Claim, Cluster: s.holder.Cluster, Namespace: "elsewhere", Name: s.holder.Name},
		{Claim: s.holder.Claim, Cluster: s.holder.Cluster, Name: s.holder.Name},
		{Claim: s.holder.Claim, Cluster: "v", Namespace: s.holder.Namespace, Name: s.holder.Name},
	} {
		s.oracle.answer = live.Answer{Verdict: live.Alive, Client: s.workspace}
		if _, err := s.Settle(t.Context(), wrong); err != nil {
			t.Fatalf("Settle(%+v): %v", wrong, err)
		}
		if s.oracle.holder != s.holder {
			t.Errorf("Settle(%+v) asks for %+v; want %+v, the holder in the ledger", wrong, s.oracle.holder, s.holder)
		}
	}
}

// If the record of another claim has the usual name, the holder's record has the long name. Settle deletes or retains
// the holder's record, and leaves the other record as it is.
func TestSettle_FindsTheRecordUnderItsLongName(t *testing.T) {
	names := ipamv1alpha1.AllocationNames("default", "c")
	for _, policy := range []ledger.ReclaimPolicy{ledger.Delete, ledger.Retain} {
		other, own := gen.Allocation("c", "p", "10.0.0.16/28"), gen.Allocation("c", "p", "10.0.0.0/28")
		other.Spec.ClaimRef = &ipamv1alpha1.ClaimRef{Name: "other", UID: "uid-of-other"}
		own.Name, own.Spec.ClaimRef = names[1], &ipamv1alpha1.ClaimRef{Name: "c", UID: "uid-of-c"}
		s := newScene(t, other, own)
		s.ledger.block.Policy = policy
		if !s.settle(t, live.Gone) {
			t.Fatalf("%s: settled = false, want true", policy)
		}
		now := &ipamv1alpha1.IPAllocation{}
		if err := s.workspace.Get(t.Context(), client.ObjectKeyFromObject(other), now); err != nil || now.Spec.ClaimRef == nil {
			t.Errorf("%s: the other claim's record is %+v, %v; want it as it was", policy, now.Spec, err)
		}
		err := s.workspace.Get(t.Context(), client.ObjectKeyFromObject(own), now)
		switch policy {
		case ledger.Retain:
			if _, uid := now.HeldBy(); err != nil || now.Spec.ClaimRef != nil || uid != "uid-of-c" || s.ledger.released {
				t.Errorf("Retain: the record is %+v of %s, %v, released %t; want it without a claim, and the block kept", now.Spec, uid, err, s.ledger.released)
			}
		default:
			if !apierrors.IsNotFound(err) || !s.ledger.released {
				t.Errorf("Delete: the record is %v, released %t; want neither record nor block", err, s.ledger.released)
			}
		}
	}
}

// When a claim is gone, its record is deleted and its block freed, even if it has only one of the two. The record of
// another claim stays.
func TestSettle_DeletesTheRecordAndFreesTheBlock(t *testing.T) {
	own, anothers := gen.Allocation("c", "p", "10.0.0.0/28"), gen.Allocation("c", "p", "10.0.0.16/28")
	anothers.Spec.ClaimRef.UID = "uid-of-its-successor"
	for name, tt := range map[string]struct {
		record *ipamv1alpha1.IPAllocation
		block  ledger.ClaimID
	}{
		"both": {own, "uid-of-c"}, "a record without a block": {own, "uid-of-another"}, "the record of another claim": {anothers, "uid-of-c"},
	} {
		s := newScene(t, tt.record)
		s.ledger.block.Holder.Claim = tt.block
		settled := s.settle(t, live.Gone)
		if record := s.record(t); !settled || s.ledger.released != (tt.block == "uid-of-c") || (record != nil) != (tt.record == anothers) {
			t.Errorf("%s: settled = %t, released = %t, record = %v", name, settled, s.ledger.released, record)
		}
	}
}

func TestSettle_FailsIfNoServerAnswers(t *testing.T) {
	s := newScene(t)
	s.oracle.err = errors.New("connection refused")
	if _, err := s.Settle(t.Context(), s.holder); !errors.Is(err, s.oracle.err) || s.ledger.released {
		t.Errorf("err = %v, released = %t", err, s.ledger.released)
	}
}

// The deletion of a claim that was refused is settled without a request: a storm of such claims costs the servers
// nothing.
func TestSettle_AsksNoServerAboutAClaimThatWasNeverBound(t *testing.T) {
	s := newScene(t)
	s.oracle.err = errors.New("asked")
	never := s.holder
	never.Claim = "uid-of-another"
	s.Deleted(never, gen.Claim("c"), nil)
	if settled, err := s.Settle(t.Context(), never); err != nil || !settled {
		t.Errorf("settled = %t, %v; nothing is left of it", settled, err)
	}
	// A claim that was deleted before it showed its block has something to settle.
	s.Deleted(s.holder, gen.Claim("c"), nil)
	if _, err := s.Settle(t.Context(), s.holder); !errors.Is(err, s.oracle.err) {
		t.Errorf("err = %v; its block is freed unasked, or forgotten", err)
	}
}

// A kcp that was restored from a backup lacks every claim that is newer than the backup. Such a server frees nothing.
func TestSettle_DistrustsAServerOlderThanTheClaim(t *testing.T) {
	for server, want := range map[string]bool{"99": false, "100": true, "101": true} {
		s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
		last := gen.Claim("c")
		last.ResourceVersion = "100"
		s.Deleted(s.holder, last, nil)
		s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace, Revision: server}
		settled, err := s.Settle(t.Context(), s.holder)
		if err != nil || settled != want || s.ledger.released != want {
			t.Errorf("server at %s: settled = %t, released = %t, %v; want %t", server, settled, s.ledger.released, err, want)
		}
	}
}

func TestSettle_DrainsAChildPool(t *testing.T) {
	s := newScene(t)
	s.holder = ledger.Holder{Claim: "uid-of-pool", Cluster: "w", Name: "pool"}
	s.ledger.block.Holder = s.holder
	if !s.settle(t, live.Gone) || !s.drained() {
		t.Error("the pool is not drained")
	}
}

// The record that came with the hint is deleted as it was seen, without a read. If it was written since it was seen,
// the first attempt fails with a conflict and frees nothing, and the second attempt reads it.
func TestSettle_ReadsARecordOnlyIfItHasChanged(t *testing.T) {
	for _, tt := range []struct {
		name    string
		written bool
		reads   int
	}{
		{"as it is", false, 0},
		{"written since", true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reads := 0
			s := newSceneWith(t, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					reads++
					return c.Get(ctx, key, obj, opts...)
				},
			}, gen.Allocation("c", "p", "10.0.0.0/28"))
			seen := s.record(t)
			if tt.written {
				now := s.record(t)
				now.Labels = map[string]string{"written": "since"}
				must.Do(t, s.workspace.Update(t.Context(), now))
			}
			reads = 0
			s.Deleted(s.holder, gen.Claim("c"), seen)
			s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace}
			_, err := s.Settle(t.Context(), s.holder)
			if tt.written {
				if !apierrors.IsConflict(err) || s.ledger.released {
					t.Errorf("Settle = %v, released = %t; want a conflict, and nothing freed before the record", err, s.ledger.released)
				}
				_, err = s.Settle(t.Context(), s.holder)
			}
			if err != nil || reads != tt.reads || !s.ledger.released || s.record(t) != nil {
				t.Errorf("Settle = %v with %d reads, released = %t, record = %v; want none with %d, and both gone", err, reads, s.ledger.released, s.record(t), tt.reads)
			}
		})
	}
}
