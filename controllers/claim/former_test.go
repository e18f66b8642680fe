package claim

import (
	"errors"
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// goes binds a /28 of the class internal to a claim with the UID "former", and lets the deletion of that claim be seen.
// The cache shows no record of it.
func (s *scene) goes(options ...gen.ClaimOption) ledger.Block {
	s.Helper()
	former := gen.Claim("c", append([]gen.ClaimOption{gen.UID("former"), gen.OfClass("internal")}, options...)...)
	block := must.Get(s.ledger.Bind(s.Context(), ledger.Request{
		Pool: "uid-of-p", Class: "internal", Length: 28, Policy: ledger.Retain,
		Holder: ledger.Holder{Claim: "former", Cluster: "tenant", Namespace: "default", Name: "c"},
	}))(s)
	q := inbox.NewQueue("former")
	s.Cleanup(q.ShutDown)
	s.onClaim("tenant", s.tenant).Delete(s.Context(), event.DeleteEvent{Object: former}, q)
	return block
}

// A claim that is made again at once gets no block, by its CREATE or its reconcile, before the block of the former
// claim is settled. If the block is freed, the claim gets it. If it is retained, the claim reuses it once the cache
// shows the record.
func TestFormer_IsSettledBeforeTheNextClaimGetsABlock(t *testing.T) {
	t.Parallel()
	for name, published := range map[string]bool{"published": true, "not published": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, allocator.Options{}, offered())
			block := s.goes(gen.Reclaim(ipamv1alpha1.ReclaimRetain))
			claim := reuses(gen.OfClass("internal"))
			if answer, err := s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: claim}); !errors.Is(err, door.ErrEarly) {
				t.Errorf("CREATE is answered %+v, %v; want no answer yet", answer.Status, err)
			}
			s.wantBlocks("10.0.0.0/28 bound former")
			s.servers.settle = func(h ledger.Holder) {
				if h != block.Holder {
					t.Errorf("settled is %+v, want %+v", h, block.Holder)
				}
				if !published {
					must.Do(t, s.ledger.Release(t.Context(), "former"))
					return
				}
				kept, _, err := s.ledger.Retained().Retain(t.Context(), "former", time.Time{})
				must.Do(t, err)
				block = kept
			}
			s.stored(claim, door.Answer{})
			after := s.reconcile("c")
			if published {
				s.wantBlocks("10.0.0.0/28 retained former")
				pool := must.Get(s.poolOf(block, "tenant"))(t)
				seen := record.New(gen.Claim("c", gen.UID("former")), block, record.Place{Name: ipamv1alpha1.AllocationName("default", "c"), Pool: pool})
				record.Retain(seen, "c", "former", time.Time{})
				must.Do(t, s.tenant.Client.Create(t.Context(), seen))
				after = s.reconcile("c")
			}
			if after.Status.AllocatedCIDR != "10.0.0.0/28" {
				t.Errorf("the claim is %+v, want it bound to 10.0.0.0/28", after.Status)
			}
			s.wantBlocks("10.0.0.0/28 bound later")
			s.ownRecord()
		})
	}
}

// A claim is made again before the cache shows the record of the former claim, and before the deletion of the former
// claim is handled. Its CREATE gets no answer, and no second block.
func TestFormer_IsKnownOnceItIsBound(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	former := gen.Claim("c", gen.UID("former"), gen.OfClass("internal"), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	first := s.create(former)
	s.stored(former, first)
	s.reconcile("c")
	testbed.Delete(t, s.tenant.Client, former, gen.Allocation("c", "p", ""))
	if answer, err := s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: reuses(gen.OfClass("internal"))}); !errors.Is(err, door.ErrEarly) {
		t.Errorf("CREATE is answered %+v, %v; want no answer yet", answer.Status, err)
	}
	s.wantBlocks("10.0.0.0/28 bound " + id(first))
}

// A claim does not wait for the former claim of its name if the former claim has freed its block, or will do so by its
// policy.
func TestFormer_DelaysNoClaimIfItFreesItsBlock(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]ipamv1alpha1.ReclaimPolicy{"Delete": ipamv1alpha1.ReclaimDelete, "by its class": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, allocator.Options{}, offered())
			s.goes(gen.Reclaim(policy))
			if answer := s.create(gen.Claim("c", gen.UID("later"), gen.OfClass("internal"))); answer.Status.AllocatedCIDR != "10.0.0.16/28" {
				t.Errorf("CREATE is answered %+v, want bound to 10.0.0.16/28", answer.Status)
			}
		})
	}
	s := newScene(t, allocator.Options{}, offered())
	s.goes(gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	must.Do(t, s.ledger.Release(t.Context(), "former"))
	if answer := s.create(gen.Claim("c", gen.UID("later"), gen.OfClass("internal"))); answer.Status.AllocatedCIDR != "10.0.0.0/28" {
		t.Errorf("CREATE is answered %+v, want bound to 10.0.0.0/28", answer.Status)
	}
}

// A former claim is forgotten after cacheLag. A claim is not its own former claim.
func TestFormers_ForgetAClaimAfterTheCacheLag(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Now())
	f := formers{clock: now}
	holder := func(i int) ledger.Holder {
		return ledger.Holder{Claim: "former", Cluster: "w", Namespace: "default", Name: fmt.Sprint(i)}
	}
	for i := range 10 {
		f.note(holder(i))
		later := holder(i)
		if _, ok := f.of(later); ok {
			t.Error("a claim is its own former one")
		}
		later.Claim = "later"
		if gone, ok := f.of(later); !ok || gone != holder(i) {
			t.Errorf("the former claim is %+v, %t; want %+v", gone, ok, holder(i))
		}
		now.SetTime(now.Now().Add(cacheLag))
		if gone, ok := f.of(later); ok {
			t.Errorf("the former claim is %+v after %s; want it forgotten", gone, cacheLag)
		}
	}
	if n := len(f.last); n != 1 {
		t.Errorf("%d are remembered, want the last one", n)
	}
}
