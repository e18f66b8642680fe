package release

import (
	"net/netip"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/test/gen"
)

// elsewhere creates a claim of the same name whose CREATE was answered with the same prefix of another pool,
// with the reservation. Its reconcile is still to come.
func (p *promiseScene) elsewhere() (*ipamv1alpha1.IPClaim, ledger.Block) {
	p.Helper()
	if _, err := p.ledger.Pools().Register(p.Context(), ledger.Pool{ID: "q", Cluster: "x", Name: "q", CIDR: netip.MustParsePrefix("10.0.0.0/24")}); err != nil {
		p.Fatal(err)
	}
	claim := gen.Claim("c", gen.UID("b"), gen.FromPool("q"))
	reserved, err := p.ledger.Reservations().Reserve(p.Context(), ledger.Request{
		Pool: "q", Length: 28, Policy: ledger.Delete, Since: time.Now(),
		Holder: ledger.Holder{Claim: promise.Of("w", claim), Cluster: "w", Namespace: "default", Name: "c"},
	})
	if err != nil {
		p.Fatal(err)
	}
	claim.Status = ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: reserved.Prefix.String(), PoolRef: &ipamv1alpha1.PoolRef{Name: "q"}}
	outcome.Succeed(&claim.Status.Conditions, 1, "bound")
	record.Date(claim.Status.Conditions, reserved)
	return claim, reserved
}

// wantOf fails the test unless the reconcile of a claim, which comes now, finds the block of its CREATE.
func (p *promiseScene) wantOf(claim *ipamv1alpha1.IPClaim, promised ledger.Block) {
	p.Helper()
	if b, has, err := p.ledger.Lookup(p.Context(), ledger.ClaimID(claim.UID)); err != nil || has && b.Pool != promised.Pool {
		p.Errorf("the ledger gives the claim %s of pool %s, %v; its CREATE was answered with that of pool %s", b.Prefix, b.Pool, err, promised.Pool)
	}
	shown, _ := promise.Shown("w", claim)
	if b, ok, err := p.ledger.Reservations().Confirm(p.Context(), shown); err != nil || !ok || b.Pool != promised.Pool {
		p.Errorf("Confirm = %s of pool %s, %t, %v; want the block of pool %s", b.Prefix, b.Pool, ok, err, promised.Pool)
	}
}

// TestSuccessor_TakesNoBlockOfAnotherPool: a block does not pass to a later claim that shows the same prefix of another
// pool, whatever holds it: a claim that is gone, the reservation of a CREATE that failed, or a record.
func TestSuccessor_TakesNoBlockOfAnotherPool(t *testing.T) {
	t.Parallel()
	t.Run("of a claim that is gone", func(t *testing.T) {
		t.Parallel()
		p := newPromise(t, ipamv1alpha1.ReclaimDelete)
		former := p.answered("a")
		p.Deleted(holderOf(former), former, nil)
		later, promised := p.elsewhere()
		if !p.settles(holderOf(former), live.Gone, later) {
			t.Error("not settled")
		}
		p.wantOf(later, promised)
	})
	t.Run("of a CREATE that failed", func(t *testing.T) {
		t.Parallel()
		p := newPromise(t, ipamv1alpha1.ReclaimDelete)
		later, promised := p.elsewhere()
		p.pass(promise.Grace)
		if !p.settles(p.reserved.Holder, live.Gone, later) {
			t.Error("not settled")
		}
		p.wantOf(later, promised)
	})
	t.Run("of a record that was deleted", func(t *testing.T) {
		t.Parallel()
		p, _ := retainedFor(t, time.Hour)
		former := p.block()
		if err := p.workspace.Delete(t.Context(), p.kept()); err != nil {
			t.Fatal(err)
		}
		later, promised := p.elsewhere()
		if !p.settles(former.Holder, live.Gone, later) {
			t.Error("not settled")
		}
		p.wantOf(later, promised)
	})
}

// TestSuccessor_DeletedWithTheSamePrefixOfAnotherPool: a claim that is gone, and showed the retained prefix of its name as one of another
// pool, takes no retained block along.
func TestSuccessor_DeletedWithTheSamePrefixOfAnotherPool(t *testing.T) {
	t.Parallel()
	p, _ := retainedFor(t, time.Hour)
	claim := p.answered("b")
	claim.Status.PoolRef = &ipamv1alpha1.PoolRef{Name: "q"}
	p.Deleted(holderOf(claim), claim, nil)
	if !p.settles(holderOf(claim), live.Gone, nil) {
		t.Error("not settled")
	}
	p.wantBlocks("10.0.0.0/28 retained a")
}
