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
	"github.com/kcp-ipam/ipam/test/testbed"
)

func TestSettle_RetainsByThePolicyLastSeen(t *testing.T) {
	for _, tt := range []struct {
		name     string
		recorded ledger.ReclaimPolicy
		lastSeen ipamv1alpha1.ReclaimPolicy
		retained bool
	}{
		{"as recorded", ledger.Retain, "", true},
		{"as last seen", ledger.Delete, ipamv1alpha1.ReclaimRetain, true},
		{"no more, as last seen", ledger.Retain, ipamv1alpha1.ReclaimDelete, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
			s.ledger.block.Policy = tt.recorded
			var told []ledger.PoolID
			s.retention.retained = func(pool ledger.PoolID) { told = append(told, pool) }
			s.Deleted(s.holder, gen.Claim("c", gen.Reclaim(tt.lastSeen)), nil)
			s.settle(t, live.Gone)
			if (len(told) > 0) != tt.retained {
				t.Errorf("the pools %v are told of a retained block; want any: %t", told, tt.retained)
			}
			record := s.record(t)
			if s.ledger.released == tt.retained || (record != nil) != tt.retained {
				t.Fatalf("released = %t, record = %v", s.ledger.released, record)
			}
			if !tt.retained {
				return
			}
			if name, uid := record.HeldBy(); record.Spec.ClaimRef != nil || name != "c" || uid != "uid-of-c" {
				t.Errorf("the retained record is %+v, held by %s/%s", record.Spec, name, uid)
			}
			if s.settle(t, live.Gone); s.ledger.released {
				t.Error("a retained block was freed while its record lives")
			}
			must.Do(t, s.workspace.Delete(t.Context(), record))
			if s.settle(t, live.Gone); !s.ledger.released {
				t.Error("the block outlived its retained record")
			}
		})
	}
}

// A block that the ledger has as retained stays while its record does, although the recorded policy is Delete: another
// controller may have seen a later policy.
func TestSettle_KeepsARetainedBlockWithItsRecord(t *testing.T) {
	record := gen.Allocation("c", "p", "10.0.0.0/28")
	record.Spec.ClaimRef = nil
	record.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: "c/uid-of-c"}
	s := newScene(t, record)
	s.ledger.block.State = ledger.Retained
	if s.settle(t, live.Gone); s.ledger.released || s.record(t) == nil {
		t.Errorf("released = %t, record = %v", s.ledger.released, s.record(t))
	}
}

// elsewhere answers the CREATE of a claim of the same name with the same prefix of another pool, q. The claim is not
// reconciled yet.
func (p *promiseScene) elsewhere() (*ipamv1alpha1.IPClaim, ledger.Block) {
	p.Helper()
	must.Get(p.ledger.Pools().Register(p.Context(), testbed.Pool("x", "q", "10.0.0.0/24")))(p)
	claim := gen.Claim("c", gen.UID("b"), gen.FromPool("q"))
	promised := p.createIn("q", ipamv1alpha1.ReclaimDelete)
	return answeredWith(promised, claim), promised
}

// wantOf fails the test unless the ledger has, under the ID of the claim, the block that its CREATE was answered with.
func (p *promiseScene) wantOf(claim *ipamv1alpha1.IPClaim, promised ledger.Block) {
	p.Helper()
	if b, ok, err := p.ledger.Lookup(p.Context(), holderOf(claim).Claim); err != nil || !ok || b.Pool != promised.Pool {
		p.Errorf("the ledger gives the claim %s of pool %s, %t, %v; its CREATE was answered with that of pool %s", b.Prefix, b.Pool, ok, err, promised.Pool)
	}
}

// TestSuccessor_TakesNoBlockOfAnotherPool: a later claim that shows the same prefix of another pool does not get the
// block. The block's holder is a claim that is gone, a CREATE that failed, or a claim whose record was deleted.
func TestSuccessor_TakesNoBlockOfAnotherPool(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(t *testing.T) (p *promiseScene, former ledger.Holder){
		"of a claim that is gone": func(t *testing.T) (*promiseScene, ledger.Holder) {
			p := newPromise(t, ipamv1alpha1.ReclaimDelete)
			return p, p.goes()
		},
		"of a CREATE that failed": func(t *testing.T) (*promiseScene, ledger.Holder) {
			p := newPromise(t, ipamv1alpha1.ReclaimDelete)
			p.pass(promise.Grace)
			return p, p.given.Holder
		},
		"of a record that was deleted": func(t *testing.T) (*promiseScene, ledger.Holder) {
			p, _ := retainedFor(t, time.Hour)
			must.Do(t, p.workspace.Delete(t.Context(), p.kept()))
			return p, p.block().Holder
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, former := arrange(t)
			later, promised := p.elsewhere()
			p.settled(former, later)
			p.wantOf(later, promised)
		})
	}
}

// TestSuccessor_FreesNoRetainedBlockOfAnotherPool: a block is retained for the name of a deleted claim. The claim
// itself showed the same prefix of another pool. Its release leaves the retained block.
func TestSuccessor_FreesNoRetainedBlockOfAnotherPool(t *testing.T) {
	t.Parallel()
	p, _ := retainedFor(t, time.Hour)
	claim := p.answered("b")
	claim.Status.PoolRef = &ipamv1alpha1.PoolRef{Name: "q"}
	p.Deleted(holderOf(claim), claim, nil)
	p.settled(holderOf(claim), nil)
	p.wantBlocks(p.is(ledger.Retained))
}
