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

// The block of a claim that was deleted before its first reconcile is freed at once, by one transaction, and the answer
// to its CREATE is forgotten.
func TestPromise_IsFreedByOneTransactionWithItsClaim(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	gone, before := p.goes(), p.Ledger.Blocks.Revision()
	p.oracle.answer = live.Answer{Verdict: live.Gone, Client: p.workspace}
	must.Get(p.Reconcile(t.Context(), gone))(t)
	p.wantBlocks()
	if now := p.Ledger.Blocks.Revision(); now != before+1 || p.Answers.Unrecorded(gone) {
		t.Errorf("the ledger is at %d, was at %d, and its CREATE is remembered: %t; want one transaction, and nothing remembered", now, before, p.Answers.Unrecorded(gone))
	}
}

// With the policy Retain, too, a block without a record is freed. No record is written for it.
func TestPromise_IsFreedIfItHasNoRecord(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimRetain)
	gone := p.goes()
	p.settled(gone, nil)
	p.wantBlocks()
	if kept := p.kept(); kept != nil {
		t.Errorf("a record was written for a claim that is gone: %+v", kept)
	}
}

// A block is retained if a client could have read its record while the claim existed. A record that a reconcile with a
// stale cache has stored after the claim's deletion is deleted, and the block freed. If the record was changed later,
// or the order is not known, the block is retained.
func TestPromise_IsRetainedIfItsRecordCouldBeRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		deletion string // the revision of the claim's deletion; the record has 100
		change   int64  // the generation of the record
		seen     bool   // the record came with the hint
		missed   bool   // a list left out the claim
		retained bool   // want
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
			own := p.recordFor("a")
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
				p.wantBlocks(p.is(ledger.Retained))
			} else {
				p.wantBlocks()
			}
			if kept := p.kept(); (kept != nil) != tt.retained {
				t.Errorf("the record is %v, want one: %t", kept, tt.retained)
			}
		})
	}
}

// Another caller may settle the same claim at the same time, and forget how it was last seen. The block is retained
// nevertheless.
func TestPromise_IsRetainedThoughAnotherCallerForgetsTheClaim(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimRetain)
	p.records()
	gone := p.goes()
	p.retention.lease = func(context.Context, ledger.Block) (time.Duration, error) {
		p.forget(gone.Claim, p.seen(gone.Claim).number)
		return 0, nil
	}
	p.settled(gone, nil)
	p.wantBlocks(p.is(ledger.Retained))
}

// A server lacks the claim, and then the CREATE of the claim lands, and a reconcile writes the claim's record. The
// record does not prove that the claim is gone: the servers are asked again, and the claim keeps its block and record.
// If they lack the claim then, it is gone.
func TestPromise_StaysIfItsClaimIsStoredDuringTheRead(t *testing.T) {
	t.Parallel()
	for name, settle := range map[string]func(*promiseScene) (bool, error){
		"by a hint":    func(p *promiseScene) (bool, error) { return p.Settle(t.Context(), p.given.Holder) },
		"by a request": func(p *promiseScene) (bool, error) { return p.SettleWitnessed(t.Context(), p.given.Holder) },
	} {
		for _, verdict := range []live.Verdict{live.Alive, live.Gone} { // in the end
			p := newPromise(t, ipamv1alpha1.ReclaimDelete)
			p.oracle.answer = live.Answer{Verdict: live.Gone, Client: p.workspace}
			p.oracle.asked = func() {
				if p.kept() == nil {
					p.records()
				} else {
					p.oracle.answer.Verdict = verdict
				}
			}
			if settled, err := settle(p); !settled || err != nil {
				t.Errorf("%s: settled = %t, error = %v; want it settled", name, settled, err)
			}
			if stays := p.kept() != nil; stays != (verdict == live.Alive) {
				t.Errorf("%s: the record is there: %t, and the verdict in the end is %d", name, stays, verdict)
			}
			if verdict == live.Gone {
				p.wantBlocks()
			} else {
				p.wantBlocks(p.is(ledger.Bound))
			}
		}
	}
}

// A server is asked for a claim whose CREATE may still succeed. Its answer, that it lacks the claim, comes when the
// CREATE is over: kcp is slow, or Settle waited for other answers. The block stays, and so does a record that the claim
// got meanwhile. Only the answer to a later question counts.
func TestPromise_StaysIfTheAnswerComesLate(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]bool{"its claim is stored meanwhile": true, "it has failed": false} {
		p := newPromise(t, ipamv1alpha1.ReclaimDelete)
		p.pass(promise.Grace - 20*time.Second)
		p.oracle.answer = live.Answer{Verdict: live.Gone, Client: p.workspace}
		p.oracle.asked = func() {
			if p.oracle.times > 1 && stored {
				p.oracle.answer.Verdict = live.Alive
			} else if stored {
				p.records()
			}
			p.pass(promise.Grace)
		}
		if settled := must.Get(p.Settle(t.Context(), p.given.Holder))(t); settled != stored || (p.kept() != nil) != stored {
			t.Errorf("%s: settled = %t, and the record is %v; want that only a claim that is there settles the hint", name, settled, p.kept())
		}
		p.wantBlocks(p.is(ledger.Bound))
		if !stored {
			p.settled(p.given.Holder, nil)
			p.wantBlocks()
		}
	}
}

// A list left out the claim, which has no record and thus no witness. Its block stays: it is left to the sweep, which
// has a brake.
func TestPromise_StaysIfItsClaimIsMissed(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimRetain)
	claim := p.answered("a")
	p.Missed(holderOf(claim), claim)
	p.settled(holderOf(claim), nil)
	p.wantBlocks(p.is(ledger.Bound))
}

// Two CREATEs of one name have a block each. The block whose claim is gone is freed, and the other block stays.
func TestPromise_LeavesTheBlockOfAnotherCreate(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	gone := p.goes()
	p.given = p.create(ipamv1alpha1.ReclaimDelete)
	p.settled(gone, p.answered("b"))
	p.wantBlocks(p.is(ledger.Bound))
}

// Nobody has seen the claim of a CREATE. The block of the CREATE is kept while the CREATE may still succeed. Then the
// block is freed, with CauseCreateFailed in the history.
func TestPromise_IsFreedWhenNoClaimComes(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	p.given = p.unseen()
	for _, verdict := range []live.Verdict{live.Gone, live.Unbound} {
		p.pass(promise.Grace - time.Second)
		if p.settles(p.given.Holder, verdict, nil) {
			t.Errorf("verdict %d: settled before the CREATE has come to an end", verdict)
		}
		p.wantBlocks(p.is(ledger.Bound))
	}
	if result, err := p.Reconcile(t.Context(), p.given.Holder); err != nil || result.RequeueAfter != time.Second {
		t.Errorf("Reconcile = %+v, %v; want it again in a second, when none is in flight", result, err)
	}
	p.pass(promise.Grace)
	if p.settles(p.given.Holder, live.Unknown, nil) {
		t.Error("settled, and nobody could tell what came of it")
	}
	p.wantBlocks(p.is(ledger.Bound))
	p.settled(p.given.Holder, gen.Claim("c")) // which shows nothing
	p.wantBlocks()
	if cause := p.lastCause(); cause != ledger.CauseCreateFailed {
		t.Errorf("the history says %q, want %s", cause, ledger.CauseCreateFailed)
	}
}

// unseen frees the block given, answers another CREATE, whose claim nobody sees, and returns the block of that CREATE.
func (p *promiseScene) unseen() ledger.Block {
	p.Helper()
	must.Do(p, p.ledger.Release(p.Context(), p.given.Holder.Claim))
	holder := p.given.Holder
	holder.Claim = promise.NewID("w", "default", "c")
	must.Do(p, p.Answers.Begin(holder))
	return must.Get(p.ledger.Bind(p.Context(), ledger.Request{Pool: "p", Length: 28, Policy: ledger.Delete, Since: time.Now(), Holder: holder}))(p)
}

// lastCause returns the cause of the last tenure that ended at the prefix of the block given.
func (p *promiseScene) lastCause() (cause ledger.Cause) {
	p.Helper()
	_, err := p.reader.Tenures(p.Context(), p.given.Prefix, func(t ledger.Tenure, err error) bool {
		must.Do(p, err)
		cause = t.Cause
		return true
	})
	must.Do(p, err)
	return cause
}

// If a CREATE has failed, no claim shows its block. The block is freed at once, without waiting for Grace.
func TestPromise_IsFreedAtOnceIfItsCreateFailed(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimRetain)
	p.given = p.unseen()
	p.Answers.Fail(p.given.Holder)
	p.settled(p.given.Holder, nil)
	p.wantBlocks()
}

// A new leader does not know which claims were seen. It keeps the block of an absent claim until promise.Grace after
// the bind, because the CREATE of the claim may still succeed. Then it frees the block.
func TestPromise_StaysForGraceAfterAFailover(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	p.Answers = nil
	p.pass(promise.Grace - time.Second)
	if p.settles(p.given.Holder, live.Gone, nil) {
		t.Error("settled, though the CREATE may still succeed")
	}
	p.wantBlocks(p.is(ledger.Bound))
	p.pass(promise.Grace)
	p.settled(p.given.Holder, nil)
	p.wantBlocks()
}

// A claim may lose its allocation ID, for example at a server that does not know that field. Its block is not freed
// while the claim shows it, or while the claim's record names it, whatever the policy.
func TestPromise_StaysIfItsClaimHasLostTheID(t *testing.T) {
	t.Parallel()
	for _, policy := range []ipamv1alpha1.ReclaimPolicy{ipamv1alpha1.ReclaimDelete, ipamv1alpha1.ReclaimRetain} {
		for name, recorded := range map[string]bool{"which shows the block": false, "whose record has it": true} {
			t.Run(string(policy)+", "+name, func(t *testing.T) {
				t.Parallel()
				p := newPromise(t, policy)
				p.pass(time.Hour)
				claim := p.answered("a")
				claim.Status.AllocationID = ""
				if recorded {
					p.records()
					claim.Status = ipamv1alpha1.IPClaimStatus{}
				}
				if p.settles(p.given.Holder, live.Gone, claim) {
					t.Error("settled, though the claim has the block")
				}
				p.wantBlocks(p.is(ledger.Bound))
			})
		}
	}
}

// A claim shows the block given, but the ledger has another block for the claim, which the claim is about to show. The
// block given is freed only when the claim shows the other block.
func TestPromise_StaysWhileAClaimShowsIt(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	claim := p.answered("a")
	claim.Status.AllocationID = ""
	must.Get(p.ledger.Bind(t.Context(), ledger.Request{Pool: "p", Length: 28, Holder: holderOf(claim)}))(t)
	p.pass(time.Hour)
	if p.settles(p.given.Holder, live.Gone, claim) {
		t.Error("freed, while a claim shows the block")
	}
	p.wantBlocks(p.is(ledger.Bound), "10.0.0.16/28 bound a")
	claim.Status.AllocatedCIDR = "10.0.0.16/28"
	p.settles(p.given.Holder, live.Gone, claim)
	p.wantBlocks("10.0.0.16/28 bound a")
}
