package derived

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// A DELETE that is refused leaves the range open and published, also if that was closed already: nobody says whether the IPPool is gone.
func TestCloseRange_OpensTheRangeOfADeleteThatFails(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	s.away = true
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if inside, err := s.CloseRange(ctx, tenant, claim, false); err == nil {
		t.Errorf("CloseRange = %q without an error while no server answers", inside)
	}
	s.wantOpen(p)
}

// A range that another workspace opens while it is closed, and binds in, keeps its IPPool, and the DELETE is refused.
func TestCloseRange_LeavesARangeThatIsOpenedMeanwhile(t *testing.T) {
	s := newScene(t)
	claim, p := s.shared()
	s.meanwhile = func() { // the range is closed, and its IPPool is looked for
		s.wantComplete(p)
		s.guest(p, "guest")
	}
	if inside := s.closes(claim, false); !strings.Contains(inside, "by others") {
		t.Errorf("the refusal is %q, want that others are inside", inside)
	}
	s.wantOpen(p)
}

// slowly deletes after something has happened.
type slowly struct {
	client.Client
	first func()
}

func (c slowly) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	c.first()
	return c.Client.Delete(ctx, object, options...)
}

// A range that is opened while its IPPool is being deleted is published once that has ended, and no sooner: the CREATE that has opened
// it names the IPPool.
func TestPublish_WaitsForADeletionOfTheObject(t *testing.T) {
	s := newScene(t)
	claim, p := s.shared()
	published := make(chan error, 1)
	s.clusters["w"] = &testbed.Workspace{Client: slowly{s.workspace, sync.OnceFunc(func() {
		s.wantComplete(p)
		s.guest(p, "guest")
		go func() { published <- s.Publish(t.Context(), p) }()
		select {
		case err := <-published:
			t.Errorf("Publish = %v, want it to wait for the deletion", err)
			published <- err
		case <-time.After(50 * time.Millisecond):
		}
	})}}
	if inside := s.closes(claim, false); !strings.Contains(inside, "by others") {
		t.Errorf("the refusal is %q, want that others are inside", inside)
	}
	must.Do(t, <-published)
	if s.object(p) == nil {
		t.Error("the range has no IPPool, want it published")
	}
}

// asking settles as before, and does something when a claim was found to be there.
type asking struct {
	Releases
	then func()
}

func (a asking) Settle(ctx context.Context, h ledger.Holder) (bool, error) {
	settled, err := a.Releases.Settle(ctx, h)
	a.then()
	return settled, err
}

// A CREATE that has found the claim of a closed range to be there comes late: the claim has gone since, and the range is being retired.
func TestComplete_LeavesARangeThatIsRetiredMeanwhile(t *testing.T) {
	s := newScene(t)
	claim, p := s.shared()
	s.mustClose(claim)
	s.Releases = asking{s, func() {
		s.deletes(claim)
		s.clock.Step(time.Second)
		must.Get(s.alloc.Derived().Begin(t.Context(), p.ID, ledger.ClaimID(claim.UID), s.grace()))(t)
	}}
	if open, err := s.Complete(t.Context(), p.ID); open || err != nil || !s.closed(p) {
		t.Errorf("Complete = %t, %v, the range is closed: %t; want it closed", open, err, s.closed(p))
	}
}

// A closed pool that got a block back after a loss of the ledger is opened again, unless a claim holds it.
func TestReconcile_AClosedPoolThatIsInUse(t *testing.T) {
	for _, held := range []bool{false, true} { // by a claim that is gone
		s := newScene(t)
		p := s.network("net", "b", "root", 24)
		if held {
			var claim *ipamv1alpha1.IPClaim
			claim, p = s.ranged("net", "a", "root", 24)
			s.deletes(claim)
		}
		must.Get(s.alloc.Derived().Begin(t.Context(), p.ID, p.Derived.Holder.Claim, s.clock.Now()))(t)
		inside := ledger.Request{Pool: p.ID, Holder: holderOf(gen.Claim("inside")), Exact: netip.PrefixFrom(p.CIDR.Addr(), 32)}
		must.Get(s.alloc.Recovery().Adopt(t.Context(), inside, ledger.Bound))(t)
		s.clock.Step(promise.Grace)
		s.sweeps()
		open := *p.Derived
		open.Holder, p.Derived = ledger.Holder{}, &open
		s.wantOpen(p)
		s.wantComplete(p)
	}
}

// A workspace whose claim holds a pool that all share, and whose DELETE never succeeds, does not keep the others out.
func TestComplete_OpensAPoolThatAllShare(t *testing.T) {
	s := newScene(t)
	claim, p := s.shared("example.com/stays")
	s.mustClose(claim)
	s.deletes(claim)
	s.wantComplete(p)
	s.guest(p, "guest")
	if held, ok := s.alloc.Derived().Held(ledger.ClaimID(claim.UID)); !ok || held.ID != p.ID {
		t.Errorf("the claim holds %s, want %s as long as it is there", held.ID, p.ID)
	}
}

// A DELETE that was allowed and failed leaves the range closed, until no such DELETE can succeed any more. Then it is open again, and
// published. No cooldown in the address spaces of the range has ended: they go with the range.
func TestCloseRange_KeepsCooldownsIfTheDeleteFails(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	space := s.space(p.ID)
	s.cooldown = time.Hour
	former := must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: space.ID, Begins: s.begins[space.ID], Length: 32, Holder: holderOf(gen.Claim("former"))}))(t)
	must.Do(t, s.alloc.Release(t.Context(), former.Holder.Claim))
	s.mustClose(claim)
	s.mustClose(claim) // while the range is closed
	s.look(p)
	if open, err := s.Complete(t.Context(), p.ID); open || err != nil || s.object(p) != nil {
		t.Errorf("Complete = %t, %v, the object is %v; want the range closed", open, err, s.object(p))
	}
	s.clock.Step(promise.Grace + time.Second)
	s.sweeps()
	s.wantOpen(p)
	space = s.space(p.ID)
	next := must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: space.ID, Begins: s.begins[space.ID], Length: 32, Holder: holderOf(gen.Claim("next"))}))(t)
	if next.Prefix == former.Prefix {
		t.Errorf("%s is given to another claim within its cooldown", next.Prefix)
	}
	must.Do(t, s.alloc.Release(t.Context(), next.Holder.Claim))
	s.mustClose(claim)
	s.deletes(claim)
	s.clock.Step(promise.Grace + time.Second)
	if s.sweeps(); s.known(p) || s.known(space) {
		t.Errorf("the range is known: %t, its address space: %t; want neither", s.known(p), s.known(space))
	}
}

// closed reports whether nothing is bound in a pool, as it is being released.
func (s *scene) closed(p ledger.Pool) bool {
	now, _ := s.alloc.Pools().Get(p.ID)
	return now.Closed()
}
