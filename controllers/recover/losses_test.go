package recover

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// The pauses between passes grow exponentially, up to longest, while one pool stays stuck, because each pass lists all
// that is published.
func TestStart_BacksOffWhileAPoolIsStuck(t *testing.T) {
	l := newLoss(t)
	clock := l.now
	l.whole(l.had(gen.Pool("k", gen.ChildOf("gone", 24)), "10.0.9.0/24", "lost", 3))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	want := []time.Duration{retry, 2 * retry, 4 * retry, 8 * retry, 16 * retry, longest, longest}
	var got []time.Duration
	l.after = func(pause time.Duration) <-chan time.Time {
		got = append(got, pause)
		clock.SetTime(clock.Now().Add(pause))
		if len(got) == len(want) {
			cancel()
		}
		over := make(chan time.Time, 1)
		over <- clock.Now()
		return over
	}
	if err := l.Start(ctx); err != nil || !slices.Equal(got[:len(want)], want) {
		t.Errorf("Start = %v, with the pauses %v; want %v", err, got, want)
	}
}

// A pool that stays frozen starts no pass before its backoff is over, even if the path of another workspace becomes
// known. A pool that is newly found lost starts a pass at once.
func TestWhole_BacksOffForAPoolThatStaysFrozen(t *testing.T) {
	for name, cidr := range map[string]string{"stuck": "10.0.9.0/24", "forged": "10.0.9.0/240"} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t)
			clock := l.now
			wantPass := func(when string, pool *ipamv1alpha1.IPPool, want bool) {
				t.Helper()
				l.wantLost(when, pool)
				begins := false
				select {
				case <-l.hint:
					begins = true
				default:
				}
				if begins != want {
					t.Errorf("%s: a pass begins: %t; want %t", when, begins, want)
				}
			}
			stays := l.had(gen.Pool("stays", gen.ChildOf("gone", 24)), cidr, "lost", 3)
			wantPass("found", stays, true)
			for range 2 {
				_ = l.pass(t.Context()) // other tests check its error
			}
			wantPass("left by a pass", stays, false)
			clock.SetTime(clock.Now().Add(retry))
			wantPass("left by the second pass", stays, false)
			wantPass("another one", l.had(gen.Pool("p"), "10.1.0.0/16", "lost", 7), true)
			clock.SetTime(clock.Now().Add(retry))
			wantPass("in time", stays, true)
			_ = l.pass(t.Context())
			wantPass("left by the third pass", stays, false)
			l.Named(directory.Workspace{Cluster: "tenant", Path: "root:gone"})
			wantPass("when a path is known", stays, false)
		})
	}
}

// A lost pool waits for the path of a workspace. When the path becomes known, the next Whole of the pool begins a pass,
// before the backoff is over. That is so at most once a minute for each workspace, because a pass lists all that is
// published, and a tenant can rename its workspace as often as it likes.
func TestNamed_EndsTheBackoffOfPoolsThatWaitForThePath(t *testing.T) {
	l := newLoss(t)
	begins := func(pool *ipamv1alpha1.IPPool, by ...directory.Workspace) bool {
		for _, workspace := range by {
			l.Named(workspace)
		}
		l.whole(pool)
		select {
		case <-l.hint:
			return true
		default:
			return false
		}
	}
	pathless := l.had(in("tenant", gen.Pool("t")), "10.1.0.0/16", "lost", 3)
	child := l.had(gen.Pool("k", gen.ChildOf("s", 24)), "10.9.0.0/24", "lost", 3)
	child.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:parent"}
	l.wantLost("at first", pathless, child)
	begins(pathless)
	_ = l.pass(t.Context())
	other, own, parent := directory.Workspace{Cluster: "other", Path: "root:other"}, directory.Workspace{Cluster: "tenant", Path: "root:t"}, directory.Workspace{Cluster: "parent", Path: "root:parent"}
	if begins(pathless, other) || begins(child, other, own) {
		t.Error("a pass begins for a pool that lacks another path")
	}
	if !begins(pathless, own) || !begins(child, parent) {
		t.Error("no pass begins for a pool whose path is known now")
	}
	for range 3 {
		_ = l.pass(t.Context())
	}
	if begins(pathless, own) {
		t.Error("another pass begins for the same workspace at once")
	}
	l.now.SetTime(l.now.Now().Add(retry))
	_ = l.pass(t.Context())
	l.now.SetTime(l.now.Now().Add(longest - retry))
	_ = l.pass(t.Context())
	if !begins(pathless, own) {
		t.Error("no pass begins for it a minute later")
	}
}

// A finalizer of the owner may keep the IPPool of a retired pool for ever, with its status. The retired pool is not
// restored if another pool has its addresses.
func TestPass_DoesNotRestoreARetiredPoolWhoseIPPoolStays(t *testing.T) {
	l := newLoss(t)
	parent := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7)
	retired := l.had(gen.Pool("old", gen.ChildOf("p", 24)), "10.0.9.0/24", "lost", 3)
	child := l.had(gen.Pool("new", gen.ChildOf("p", 24)), "10.0.9.0/24", "lost", 3)
	keep(retired)
	child.CreationTimestamp = metav1.NewTime(retired.CreationTimestamp.Add(time.Hour))
	inside := gen.Allocation("a", "new", "10.0.9.16/28")
	l.record.records = []*ipamv1alpha1.IPAllocation{inside}
	// If the retired pool counted as lost, no root pool of its workspace would be registered.
	l.makesWhole(parent, child, retired)
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{inside: "10.0.9.16/28 bound"})
	l.wantUnknown(retired)
}

// A retired root pool, too, is not restored if a later root pool has its addresses. It keeps no pool of its address
// domain frozen.
func TestPass_PrefersALaterRootPoolToARetiredOne(t *testing.T) {
	l := newLoss(t)
	retired, later := l.had(gen.Pool("old", gen.Domain("d")), "10.0.0.0/16", "lost", 7), l.had(gen.Pool("new"), "10.0.0.0/15", "lost", 7)
	beside := l.had(gen.Pool("beside", gen.Domain("d")), "10.9.0.0/16", "lost", 7)
	keep(retired)
	later.CreationTimestamp = metav1.NewTime(retired.CreationTimestamp.Add(time.Hour))
	l.makesWhole(later, beside, retired)
	l.wantUnknown(retired)
}

// A retired child pool is not restored if its parent has allocated the addresses to a claim.
func TestPass_PrefersABlockOfTheParentToARetiredPool(t *testing.T) {
	l := newLoss(t)
	parent := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7)
	retired := l.had(gen.Pool("old", gen.ChildOf("p", 24)), "10.0.9.0/24", "lost", 3)
	below := l.had(gen.Pool("below", gen.ChildOf("old", 28)), "10.0.9.0/28", "lost", 3)
	keep(retired, below)
	block := gen.Allocation("a", "p", "10.0.9.16/28")
	l.record.records = []*ipamv1alpha1.IPAllocation{block}
	_ = l.pass(t.Context()) // an error may name the retired pools
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{block: "10.0.9.16/28 bound"})
	l.wantUnknown(retired, below)
	l.wantWhole("below which pools were retired", parent)
}

// A claim without IPAllocation, bound shortly before the loss, keeps its block, even if a retired pool shows the same
// addresses.
func TestPass_PrefersAClaimWithoutAnIPAllocationToARetiredPool(t *testing.T) {
	for name, published := range map[string]bool{"the retired pool is there": true, "there is none": false} {
		l := newLoss(t)
		l.binds("w1", "root:w1")
		parent := l.had(gen.Pool("p", gen.Visible(ipamv1alpha1.VisibilityPlatform)), "10.0.0.0/16", "lost", 7)
		if published {
			keep(l.had(gen.Pool("old", gen.ChildOf("p", 24)), "10.0.9.0/24", "lost", 3))
		}
		l.shows("c", "w1", "p", "10.0.9.16/28", l.now.Now())
		l.makesWhole(parent)
		if got := l.blocks()["uid-of-c"]; got != "10.0.9.16/28 bound" {
			t.Errorf("%s: the claim has %q, want 10.0.9.16/28", name, got)
		}
		if p, ok := l.ledger.Pools().Get("uid-of-old"); ok {
			t.Errorf("%s: the ledger has it: %+v", name, p)
		}
	}
}

// A pool that is being deleted is restored with the block of a claim without IPAllocation, and then drains.
func TestPass_RestoresAndDrainsAPoolThatIsBeingDeleted(t *testing.T) {
	l := newLoss(t)
	l.binds("w1", "root:w1")
	parent := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7)
	keep(l.had(gen.Pool("used", gen.ChildOf("p", 24), gen.Visible(ipamv1alpha1.VisibilityPlatform)), "10.0.9.0/24", "lost", 3))
	l.shows("c", "w1", "used", "10.0.9.16/28", l.now.Now())
	l.makesWhole(parent)
	if got := l.blocks()["uid-of-c"]; got != "10.0.9.16/28 bound" {
		t.Errorf("the claim has %q, want 10.0.9.16/28", got)
	}
	if p, _ := l.ledger.Pools().Get("uid-of-used"); p.State != ledger.PoolDraining {
		t.Errorf("the pool is %q; want it to drain", p.State)
	}
}

// A finalizer of the owner keeps the IPPool of a retired pool. A new process does not know that the pool was retired:
// it restores the pool, and drains it. If the pool has no blocks, it is then retired again.
func TestPass_RetiresADeletedPoolAgain(t *testing.T) {
	l := newLoss(t)
	parent := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7)
	empty := l.had(gen.Pool("empty", gen.ChildOf("p", 24)), "10.0.8.0/24", "lost", 3)
	keep(empty, l.had(gen.Pool("used", gen.ChildOf("p", 24)), "10.0.9.0/24", "lost", 3))
	inside := gen.Allocation("a", "used", "10.0.9.16/28")
	l.record.records = []*ipamv1alpha1.IPAllocation{inside}
	l.makesWhole(parent)
	for known := true; known; _, _, known, _ = l.ledger.Pools().Read(t.Context(), "uid-of-empty") { // it retires by itself
	}
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{inside: "10.0.9.16/28 bound"})
	if p, _ := l.ledger.Pools().Get("uid-of-used"); p.State != ledger.PoolDraining {
		t.Errorf("the pool with a block is %q; want it to drain", p.State)
	}
	l.wantWhole("that went again", empty)
}

// In the restored ledger the block is bound. Since then its claim was deleted, and its IPAllocation retained. The pass
// retains the block until the time that the IPAllocation shows.
func TestPass_AmendsABlockThatWasRetainedSince(t *testing.T) {
	l := newLoss(t)
	l.older("r")
	retained, until := retained("p", "10.0.0.0/28")
	l.record.records = []*ipamv1alpha1.IPAllocation{retained}
	must.Do(t, l.pass(t.Context()))
	if b, _, err := l.ledger.Lookup(t.Context(), "uid-of-r"); err != nil || b.State != ledger.Retained || !b.Until.Equal(until) {
		t.Errorf("the block is %+v, %v; want it retained until %s, as its record says", b, err, until)
	}
}

// The restored ledger has an older reclaim policy for a block. The pass sets the policy that the IPAllocation shows.
func TestPass_AmendsTheReclaimPolicyOfABlock(t *testing.T) {
	l := newLoss(t)
	l.older("a")
	record := gen.Allocation("a", "p", "10.0.0.0/28")
	record.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain
	l.record.records = []*ipamv1alpha1.IPAllocation{record}
	must.Do(t, l.pass(t.Context()))
	b, _, err := l.ledger.Lookup(t.Context(), ledger.ClaimID(record.AllocationID()))
	if err != nil || b.Policy != ledger.Retain || b.State != ledger.Bound {
		t.Errorf("the block is %+v, %v; want it bound, and to be retained", b, err)
	}
}

// A claim without IPAllocation gets back the block that its status shows: under the allocation ID that it shows, or
// under its UID if it shows none. An ID copied from another claim counts as none. A block that the ledger still has
// stays as it is.
func TestPass_AdoptsAnAnsweredBlockUnderTheIDOfItsClaim(t *testing.T) {
	l := newLoss(t)
	answered, copied, unanswered, kept := gen.Claim("answered"), gen.Claim("copied"), gen.Claim("unanswered"), gen.Claim("kept")
	idOf := func(claim *ipamv1alpha1.IPClaim) ledger.ClaimID {
		return promise.NewID("platform", "default", claim.Name)
	}
	answered.Status.AllocationID, kept.Status.AllocationID = types.UID(idOf(answered)), types.UID(idOf(kept))
	copied.Status.AllocationID = answered.Status.AllocationID
	for claim, cidr := range map[*ipamv1alpha1.IPClaim]string{
		answered: "10.0.0.0/28", kept: "10.0.0.16/28", copied: "10.0.0.32/28", unanswered: "10.0.0.48/28",
	} {
		claim.Status.AllocatedCIDR, claim.Status.PoolRef = cidr, &ipamv1alpha1.PoolRef{Name: "p"}
		l.record.claims = append(l.record.claims, claim)
	}
	pool := gen.Pool("p")
	id := l.registers(pool, "10.0.0.0/16")
	l.ledger.Recovery().Trust(id)
	must.Get(l.ledger.Bind(t.Context(), ledger.Request{
		Pool: id, Exact: netip.MustParsePrefix("10.0.0.16/28"), Holder: promise.HolderOf("platform", kept),
	}))(t)
	l.restart()
	l.wantLost("in a ledger that is behind", l.had(pool, "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 9))
	must.Do(t, l.pass(t.Context()))
	l.wantAll(map[ledger.ClaimID]string{
		ledger.ClaimID(answered.Status.AllocationID): "10.0.0.0/28 bound", ledger.ClaimID(kept.Status.AllocationID): "10.0.0.16/28 bound",
		"uid-of-copied": "10.0.0.32/28 bound", "uid-of-unanswered": "10.0.0.48/28 bound",
	})
}

// The block of an IPAllocation is adopted under the allocation ID that the IPAllocation shows, for its claim or for the
// claim from which it was retained. By that ID the claim finds its block, and the deletion of the IPAllocation frees
// the block.
func TestPass_AdoptsABlockUnderItsAllocationID(t *testing.T) {
	l := newLoss(t)
	pool := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7)
	held, left := gen.Allocation("a", "p", "10.0.4.0/28"), gen.Allocation("r", "p", "10.0.5.0/28", gen.Retained())
	a, r := promise.NewID("platform", "default", "a"), promise.NewID("platform", "default", "r")
	held.Spec.ClaimRef.AllocationID = types.UID(a)
	left.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: "r/uid-of-r/" + string(r)}
	l.record.records = []*ipamv1alpha1.IPAllocation{held, left}
	claim := gen.Claim("a")
	claim.Status.AllocationID, claim.Status.AllocatedCIDR, claim.Status.PoolRef = types.UID(a), "10.0.4.0/28", &ipamv1alpha1.PoolRef{Name: "p"}
	l.record.claims = append(l.record.claims, claim)
	l.makesWhole(pool)
	l.wantAll(map[ledger.ClaimID]string{a: "10.0.4.0/28 bound", r: "10.0.5.0/28 retained"})
}
