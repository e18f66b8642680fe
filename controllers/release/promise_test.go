package release

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A claim that was deleted before its reconcile gives back what it was promised, at once.
func TestPromise_DeletedAtOnce(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	gone := p.goes()
	p.settled(gone, nil)
	p.wantBlocks()
}

// With Retain nothing else becomes of it: nothing of it was published.
func TestPromise_UnpublishedIsFreed(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimRetain)
	gone := p.goes()
	p.settled(gone, nil)
	p.wantBlocks()
	if kept := p.kept(); kept != nil {
		t.Errorf("a record was written for a claim that is gone: %+v", kept)
	}
}

// A record that a reconcile has stored after its claim had gone, by a cache that lagged behind, keeps nothing. One that a
// client could have read while the claim was there does, and so does one that was changed since.
func TestPromise_RetainedIsWhatWasPublished(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		deletion string // the revision of that; the record has 100
		change   int64  // the generation of the record
		seen     bool   // the record, with the deletion
		missed   bool   // the deletion
		retained bool
	}{
		"stored before the deletion":                {deletion: "101", change: 1, retained: true},
		"before it, and seen with it":               {deletion: "101", change: 1, seen: true, retained: true},
		"stored after the deletion":                 {deletion: "99", change: 1},
		"after it, and seen with it":                {deletion: "99", change: 1, seen: true},
		"changed after the deletion":                {deletion: "99", change: 2, retained: true},
		"nobody has seen when the claim went":       {deletion: "99", change: 1, missed: true, retained: true},
		"the revision of the deletion is no number": {deletion: "x", change: 1, retained: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPromise(t, ipamv1alpha1.ReclaimRetain)
			p.confirm(p.answered("a"))
			own := recordFor("a")
			own.ResourceVersion, own.Generation = "100", tt.change
			p.workspace = newSceneWith(t, interceptor.Funcs{}, own).workspace
			claim := p.answered("a")
			claim.ResourceVersion = tt.deletion
			switch {
			case tt.missed:
				p.Missed(holderOf(claim), claim)
			case tt.seen:
				p.Deleted(holderOf(claim), claim, p.kept())
			default:
				p.Deleted(holderOf(claim), claim, nil)
			}
			p.settled(holderOf(claim), nil)
			if tt.retained {
				p.wantBlocks("10.0.0.0/28 retained a")
			} else {
				p.wantBlocks()
			}
			if kept := p.kept(); (kept != nil) != tt.retained {
				t.Errorf("the record is %v, want one: %t", kept, tt.retained)
			}
		})
	}
}

// Another caller may settle the same claim meanwhile, and forget what was seen of it.
func TestPromise_RetainedWhileAnotherForgetsTheClaim(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimRetain)
	p.records()
	gone := p.goes()
	p.retention.lease = func(context.Context, ledger.Block) (time.Duration, error) {
		p.forget("a", p.seen("a").number)
		return 0, nil
	}
	p.settled(gone, nil)
	p.wantBlocks("10.0.0.0/28 retained a")
}

// A claim that a list left out is no more believed to be gone than one with a record: one without a
// witness is left to the sweep, and its brake.
func TestPromise_Missed(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimRetain)
	claim := p.answered("a")
	p.Missed(holderOf(claim), claim)
	p.settled(holderOf(claim), nil)
	p.wantBlocks("10.0.0.0/28 bound a")
}

// Of two claims that were answered with one reservation the first is gone, and the second there.
func TestPromise_OfTheClaimThatFollows(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	first := p.answered("a")
	p.reserved = p.reserve(ipamv1alpha1.ReclaimDelete)
	p.Deleted(holderOf(first), first, nil)
	p.settled(holderOf(first), p.answered("b"))
	p.wantBlocks(p.unconfirmed())
}

// A block that was answered to several CREATEs is not freed while one of them may still succeed.
// The record of the claim that is gone is in nobody's way meanwhile.
func TestPromise_WhileAnotherCreateIsInFlight(t *testing.T) {
	t.Parallel()
	first := gen.Allocation("c", "p", "10.0.0.0/28")
	first.Spec.ClaimRef.UID = "a"
	p := newPromise(t, ipamv1alpha1.ReclaimDelete, first)
	p.reserved = p.reserve(ipamv1alpha1.ReclaimDelete)
	p.confirm(p.answered("a"))
	gone := p.goes()
	p.pass(promise.Grace - time.Second)
	if p.settles(gone, live.Gone, nil) {
		t.Error("settled while another CREATE may still succeed")
	}
	p.wantBlocks("10.0.0.0/28 bound a")
	if result, err := p.Reconcile(t.Context(), gone); err != nil || result.RequeueAfter != time.Second {
		t.Errorf("Reconcile = %+v, %v; want it again in a second, when none is in flight", result, err)
	}
	if p.kept() != nil {
		t.Error("the record is there, want it deleted at once")
	}
	p.pass(promise.Grace)
	p.settled(gone, p.answered("b"))
	p.wantBlocks("10.0.0.0/28 bound b")
	p.settles(gone, live.Gone, nil)
	p.wantBlocks("10.0.0.0/28 bound b")
}

// A later claim that shows the block has it, whatever the policy of the one that is gone. Nothing
// is decided while a CREATE is in flight, for a third claim may follow.
func TestPromise_RetainedAndInherited(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimRetain)
	p.reserved = p.reserve(ipamv1alpha1.ReclaimRetain)
	p.confirm(p.answered("a"))
	gone := p.goes()
	for _, now := range []*ipamv1alpha1.IPClaim{nil, p.answered("b")} {
		p.pass(promise.Grace - time.Second)
		if p.settles(gone, live.Gone, now) {
			t.Errorf("settled while another CREATE may still succeed; the claim of the name is %v", now)
		}
		p.wantBlocks("10.0.0.0/28 bound a")
	}
	p.pass(promise.Grace)
	p.settled(gone, p.answered("b"))
	p.wantBlocks("10.0.0.0/28 bound b")
}

// A reservation is freed when nothing came of it, and not before the last CREATE that was
// answered with it can have come to an end.
func TestReservation_IsFreedWhenNoClaimComes(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	for _, verdict := range []live.Verdict{live.Gone, live.Unbound} {
		p.pass(promise.Grace - time.Second)
		if p.settles(p.reserved.Holder, verdict, nil) {
			t.Errorf("verdict %d: settled before a CREATE in flight has come to an end", verdict)
		}
		p.wantBlocks(p.unconfirmed())
	}
	p.pass(promise.Grace)
	if p.settles(p.reserved.Holder, live.Unknown, nil) {
		t.Error("settled, and nobody could tell what came of it")
	}
	p.wantBlocks(p.unconfirmed())
	pending := gen.Claim("c")
	p.settled(p.reserved.Holder, pending)
	p.wantBlocks()
}

// The answer may be given once more while the servers are asked: then it is another reservation.
func TestReservation_AnsweredAgainMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	p.pass(promise.Grace)
	p.oracle.asked = func() { p.reserve(ipamv1alpha1.ReclaimDelete) }
	if p.settles(p.reserved.Holder, live.Gone, nil) {
		t.Error("settled, though a CREATE was answered meanwhile")
	}
	p.wantBlocks(p.unconfirmed())
}

// A claim that shows the block gets it, if no reconcile has seen to that.
func TestReservation_BecomesTheBlockOfItsClaim(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	p.pass(time.Hour)
	p.settled(p.reserved.Holder, p.answered("a"))
	p.wantBlocks("10.0.0.0/28 bound a")
}

// A claim that shows the block, and has another one, is about to show that.
func TestReservation_StaysWhileAClaimShowsIt(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	claim := p.answered("a")
	must.Get(p.ledger.Bind(t.Context(), ledger.Request{Pool: "p", Length: 28, Holder: holderOf(claim)}))(t)
	p.pass(time.Hour)
	if p.settles(p.reserved.Holder, live.Gone, claim) {
		t.Error("freed, while a claim shows the block")
	}
	p.wantBlocks(p.unconfirmed(), "10.0.0.16/28 bound a")
	claim.Status.AllocatedCIDR = "10.0.0.16/28"
	p.settles(p.reserved.Holder, live.Gone, claim)
	p.wantBlocks("10.0.0.16/28 bound a")
}
