package release

import (
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A reservation is freed when nothing came of it, and not before the last CREATE that was
// answered with it can have come to an end.
func TestReservation_OfNoClaim(t *testing.T) {
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
func TestReservation_OfAClaimThatShowsIt(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	p.pass(time.Hour)
	p.settled(p.reserved.Holder, p.answered("a"))
	p.wantBlocks("10.0.0.0/28 bound a")
}

// A claim that shows the block, and has another one, is about to show that.
func TestReservation_OfAClaimThatHasAnotherBlock(t *testing.T) {
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

// In a ledger that was restored from an older copy a block may be reserved for a claim that was
// confirmed later, and has it by its record, too. The claim is left with it.
func TestReservation_OfAClaimThatHasTheBlock(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	claim := p.answered("a")
	must.Get(p.ledger.Recovery().Adopt(t.Context(), ledger.Request{Pool: "p", Exact: p.reserved.Prefix, Holder: holderOf(claim)}, ledger.Bound))(t)
	p.pass(time.Hour)
	p.settled(p.reserved.Holder, claim)
	p.wantBlocks("10.0.0.0/28 bound a")
}
