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

// If no server says whether the IPPool is gone, CloseRange fails after it has closed the range. The range is open again
// then, and published.
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

// While CloseRange closes a shared range, another workspace opens it again, and binds a block in it. The DELETE is
// refused, and the IPPool stays.
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

// slowly is a client that calls the function create before each creation, and the function first before each deletion,
// if these are set.
type slowly struct {
	client.Client
	create, first func()
}

func (c slowly) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if c.create != nil {
		c.create()
	}
	return c.Client.Create(ctx, object, options...)
}

func (c slowly) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if c.first != nil {
		c.first()
	}
	return c.Client.Delete(ctx, object, options...)
}

// wantWaits expects a call to wait for a request to kcp: its result does not come within 50 ms. The channel needs room
// for the result.
func wantWaits[T any](t *testing.T, result chan T) {
	t.Helper()
	select {
	case early := <-result:
		t.Errorf("the call has returned %v, want it to wait for the request", early)
		result <- early
	case <-time.After(50 * time.Millisecond):
	}
}

// A CREATE opens a range again whose IPPool is being deleted. Publish waits until the deletion has ended, and then
// creates the IPPool: the CREATE's answer names it.
func TestPublish_WaitsForADeletionOfTheObject(t *testing.T) {
	s := newScene(t)
	claim, p := s.shared()
	published := make(chan error, 1)
	s.clusters["w"] = &testbed.Workspace{Client: slowly{Client: s.workspace, first: sync.OnceFunc(func() {
		s.wantComplete(p)
		s.guest(p, "guest")
		go func() { published <- s.Publish(t.Context(), p) }()
		wantWaits(t, published)
	})}}
	if inside := s.closes(claim, false); !strings.Contains(inside, "by others") {
		t.Errorf("the refusal is %q, want that others are inside", inside)
	}
	must.Do(t, <-published)
	if s.object(p) == nil {
		t.Error("the range has no IPPool, want it published")
	}
}

// The DELETE of a range comes while a slow server still creates the range's IPPool. CloseRange waits until the IPPool
// is there, and deletes it.
func TestCloseRange_WaitsForACreationOfTheObject(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	s.deletes(s.object(p))
	refusal := make(chan string, 1)
	s.clusters["w"] = &testbed.Workspace{Client: slowly{Client: s.workspace, create: func() {
		go func() { refusal <- s.closes(claim, false) }()
		wantWaits(t, refusal)
	}}}
	must.Do(t, s.publish(t.Context(), p))
	if inside := <-refusal; inside != "" || !s.closed(p) || s.object(p) != nil {
		t.Errorf("the refusal is %q, the range is closed: %t, its IPPool is %v; want it closed, without an IPPool", inside, s.closed(p), s.object(p))
	}
}

// Retire is called for an unused pool while a slow server still creates its IPPool. Retire waits until the IPPool is
// there, and deletes it.
func TestRetire_WaitsForACreationOfTheObject(t *testing.T) {
	s := newScene(t)
	p := s.network("net", "a", "root", 24)
	s.deletes(s.object(p))
	retired := make(chan error, 1)
	s.clusters["w"] = &testbed.Workspace{Client: slowly{Client: s.workspace, create: func() {
		go func() { retired <- s.Retire(t.Context(), p, "") }()
		wantWaits(t, retired)
	}}}
	must.Do(t, s.publish(t.Context(), p))
	must.Do(t, <-retired)
	if s.known(p) || s.object(p) != nil {
		t.Errorf("the ledger has the pool: %t, its IPPool is %v; want neither", s.known(p), s.object(p))
	}
}

// The caller of a DELETE has gone, and a CREATE has opened the range again, while a slow server still deletes the range's
// IPPool. Publish waits for that deletion, and creates the IPPool again.
func TestPublish_WaitsForADeletionWhoseCallerHasGone(t *testing.T) {
	s := newScene(t)
	claim, p := s.shared()
	lands, published := make(chan struct{}), make(chan error, 1)
	s.clusters["w"] = &testbed.Workspace{Client: slowly{Client: s.workspace, first: sync.OnceFunc(func() { <-lands })}}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if inside, err := s.CloseRange(ctx, tenant, claim, false); err == nil {
		t.Errorf("CloseRange = %q without an error while the IPPool is being deleted", inside)
	}
	s.wantComplete(p)
	go func() { published <- s.Publish(t.Context(), p) }()
	wantWaits(t, published)
	close(lands)
	must.Do(t, <-published)
	s.wantOpen(p)
}

// While a DELETE of a range looks for the IPPool, another DELETE of the range comes. It waits, so each has to look once.
// If it closed the range again meanwhile, the first would have to begin again, and none of many would ever end.
func TestCloseRange_WaitsForAnotherDeleteOfTheRange(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	before, other := s.asked.Load(), make(chan string, 1)
	s.meanwhile = func() {
		s.clock.Step(time.Millisecond)
		go func() { other <- s.closes(claim, false) }()
		wantWaits(t, other)
	}
	s.mustClose(claim)
	if inside := <-other; inside != "" || !s.closed(p) || s.object(p) != nil {
		t.Errorf("the other refusal is %q, the range is closed: %t, its IPPool is %v; want it closed, without an IPPool", inside, s.closed(p), s.object(p))
	}
	if looks := s.asked.Load() - before; looks != 2 {
		t.Errorf("the two DELETEs have looked for the IPPool %d times, want twice", looks)
	}
}

// asking calls the function then after each Settle.
type asking struct {
	Releases
	then func()
}

func (a asking) Settle(ctx context.Context, h ledger.Holder) (bool, error) {
	settled, err := a.Releases.Settle(ctx, h)
	a.then()
	return settled, err
}

// A CREATE has found that the claim of a closed range exists. Before it opens the range, the claim goes, and another
// caller closes the range again, to retire it. Complete leaves the range closed.
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

// A closed pool that got a block back after a loss of the ledger is opened again. If it was closed for a claim, which
// is gone, no claim holds it afterwards.
func TestReconcile_OpensAClosedPoolThatIsInUse(t *testing.T) {
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

// The DELETE of the claim that holds a shared pool never succeeds. The claim's workspace does not keep other workspaces
// out: their CREATE opens the pool. The claim holds it as long as it exists.
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

// A DELETE that was allowed and then failed leaves the range closed, until no such DELETE can succeed any more. Then
// the range is opened and published again. Its address spaces have kept their cooldowns meanwhile, because they go only
// with the range.
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

func (s *scene) closed(p ledger.Pool) bool {
	now, _ := s.alloc.Pools().Get(p.ID)
	return now.Closed()
}
