package allocator

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

func TestSpace_RepeatsTheAddressesOfItsPool(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	must.Do(t, l.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/32")}))
	a, b := l.space("p", "a"), l.space("p", "b")
	if again := l.space("p", "a"); again.ID != a.ID || a.ID == b.ID {
		t.Errorf("the spaces are %s, %s, and %s again; want two", a.ID, b.ID, again.ID)
	}
	for claim, s := range map[string]ledger.Pool{"in-a": a, "in-b": b} {
		l.gets(request(s.ID, claim, 32), "10.0.0.1/32")
	}
	if _, err := l.Pools().Register(t.Context(), ledger.Pool{ID: "q", Cluster: "platform", Name: "q", CIDR: prefix("10.0.1.0/24")}); err != nil {
		t.Errorf("Register beside the address spaces: %v", err)
	}
	must.Do(t, l.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/30")}))
	l.gets(request(a.ID, "next", 32), "10.0.0.4/32")
	must.Be(t, l.Pools().Retire(t.Context(), "p"), ledger.ErrPoolInUse)
	l.sameAsLedger()
	must.Do(t, l.Pools().Drain(t.Context(), "p"))
	for _, s := range []ledger.Pool{a, b} {
		must.Fail(l.Bind(t.Context(), request(s.ID, "late", 32)))(t, ledger.ErrPoolDraining)
	}
	for _, claim := range []ledger.ClaimID{"in-a", "in-b", "next"} {
		l.free(claim)
	}
	l.waitGone("p") // it goes by itself
	l.holds(0)
}

// A request that would begin an address space, and is not queued, leaves nothing of the space in memory: a tenant may
// send very many such requests.
func TestSpace_IsForgottenIfItsRequestIsNotQueued(t *testing.T) {
	l := newLedger(t, func(o *Options) { o.QueueLimit = 1 })
	l.pool("p", "10.0.0.0/24")
	inFlight, goOn := l.holdCommits()
	done := make(chan error, 2)
	bind := func(in, claim string) {
		_, err := l.Bind(t.Context(), request(l.space("p", in).ID, claim, 32))
		done <- err
	}
	go bind("a", "sent")
	<-inFlight
	go bind("b", "queued")
	l.waitQueued(1)
	for n := range 10 {
		must.Fail(l.Bind(t.Context(), request(l.space("p", strconv.Itoa(n)).ID, "too many", 32)))(t, ledger.ErrBusy)
	}
	must.Fail(l.Bind(t.Context(), request(l.space("p", "a").ID, "one more", 32)))(t, ledger.ErrBusy)
	goOn()
	for range 2 {
		must.Do(t, <-done)
	}
	if spaces := len(l.engine.Spaces.All()); spaces != 3 {
		t.Errorf("memory has %d spaces, want 3: that of the pool, and two of it", spaces)
	}
	l.sameAsLedger()
}

// The exclusions, the draining and the freeze of a pool hold in all its address spaces at once, and after a restart.
func TestSpace_FollowsItsPool(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	ids := []ledger.PoolID{l.space("p", "a").ID, l.space("p", "b").ID}
	for _, id := range ids {
		l.bind(request(id, "in-"+string(id), 32))
	}
	want := func(what string, is func(ledger.Pool) bool) {
		t.Helper()
		for range 2 {
			for _, id := range ids {
				if s, _ := l.Pools().Get(id); !is(s) {
					t.Errorf("%s: the address space is %+v", what, s)
				}
			}
			l.again()
		}
	}
	must.Do(t, l.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.128/25")}))
	want("excluded", func(s ledger.Pool) bool { return len(s.Excluded) == 1 })
	l.freeze(l.Allocator)
	want("frozen", func(s ledger.Pool) bool { return s.Frozen })
	l.resume(l.Allocator, 0)
	want("resumed", func(s ledger.Pool) bool { return !s.Frozen })
	must.Do(t, l.Pools().Drain(t.Context(), "p"))
	want("drained", func(s ledger.Pool) bool { return s.State == ledger.PoolDraining })
	for _, id := range ids {
		l.free(ledger.ClaimID("in-" + string(id)))
	}
	l.waitGone("p") // it goes by itself
	l.holds(0)
	if left := l.keysWith(""); slices.ContainsFunc(left, func(key string) bool { return strings.Contains(key, "/p.") }) {
		t.Errorf("the ledger has %v left of the address spaces", left)
	}
}

// An address space is frozen with its pool, and trusted and resumed with it.
func TestSpace_IsFrozenWithItsPool(t *testing.T) {
	first := newLedger(t)
	first.pool("p", "10.0.0.0/24")
	known := first.space("p", "known").ID
	first.bind(request(known, "c", 28))
	l := &fixture{t: t, etcd: first.etcd, Allocator: first.open(frozenLedger)}
	l.wantFrozen(known, false)
	failsAs[*ledger.FrozenError](l.Bind(t.Context(), request(l.space("p", "new").ID, "new", 28)))(t)
	l.Recovery().Trust("p")
	l.bind(request(known, "d", 28))
	l.freeze(l.Allocator)
	l.wantFrozen(known, true)
	lost := l.space("p", "lost").ID // which a published record shows
	must.Get(l.Recovery().Adopt(t.Context(), exactly(request(lost, "published", 0), "10.0.0.16/28"), ledger.Bound))(t)
	l.wantFrozen(lost, true)
	l.resume(l.Allocator, 0)
	for _, id := range []ledger.PoolID{known, lost} {
		l.bind(request(id, "new-in-"+string(id), 28))
	}
	l.sameAsLedger()
}

// An address space stays while a claim waits in it, so that no younger claim comes first. It goes when that claim is
// bound, or waits no longer.
func TestSpace_StaysForItsWaiters(t *testing.T) {
	r := newRoom(t)
	s := r.space("p", "a").ID
	r.bind(exactly(request(s, "all", 0), "10.0.0.0/24"))
	r.Waits().Add(request(s, "first", 24))
	r.Waits().Add(request(s, "second", 24))
	r.release("all")
	r.wantWoken("first")
	r.refused(request(s, "younger", 24))
	r.bind(request(s, "first", 24))
	r.release("first")
	r.wantWoken("second")
	r.waitIdle(t)
	if _, there := r.Pools().Get(s); !there {
		t.Error("the address space has gone, and a claim waits there")
	}
	r.Waits().Withdraw("second")
	r.waitGone(s)
	r.sameAsLedger()
}

// A claim that waits in an address space without a block does not keep the range of that space. When the range is
// retired, the claim is woken.
func TestRetire_WakesTheWaitersOfAnAddressSpace(t *testing.T) {
	r := newRoom(t)
	p := r.provision("p", 26, ofNetwork("net", "a"))
	s := r.space(p.ID, "b").ID
	r.bind(request(s, "in", 32))
	must.Do(t, r.Pools().Exclude(t.Context(), p.ID, []netip.Prefix{prefix("10.0.0.0/32")}))
	r.Waits().Add(exactly(request(s, "waits", 0), "10.0.0.0/26"))
	r.release("in")
	r.waitIdle(t)
	if _, there := r.Pools().Get(s); !there {
		t.Fatal("the address space has gone, and a claim waits there")
	}
	until := time.Now()
	must.Get(r.Derived().Begin(t.Context(), p.ID, "", until))(t)
	must.Do(t, r.Derived().Confirm(t.Context(), p.ID, until))
	must.Do(t, r.Derived().Retire(t.Context(), p.ID, ""))
	r.wantWoken("waits")
	r.waitGone(p.ID)
	r.sameAsLedger()
}

// The changes of a pool include those of its address spaces, also of spaces that are gone.
func TestBehind_CountsAddressSpaces(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	last := int64(-1)
	grown := func(what string) {
		t.Helper()
		now := must.Get(l.Pools().Changes("p"))(t)
		if now < last {
			t.Errorf("%s: the pool has %d changes, and had %d", what, now, last)
		}
		last = now
		for changes, want := range map[int64]bool{last: false, last + 1: true} {
			if behind, err := l.Recovery().Behind(t.Context(), "p", changes); err != nil || behind != want {
				t.Errorf("%s: Behind(%d) = %t, %v; the pool has %d changes", what, changes, behind, err, last)
			}
		}
	}
	grown("new")
	s := l.space("p", "a").ID
	for _, claim := range []string{"a", "b", "c"} {
		l.bind(request(s, claim, 32))
	}
	before := last
	grown("with blocks in the address space")
	if last < before+3 {
		t.Errorf("three blocks of the address space raised the changes from %d to %d", before, last)
	}
	for _, claim := range []ledger.ClaimID{"a", "b", "c"} {
		l.free(claim)
	}
	l.waitGone(s)
	l.waitIdle(t) // until then memory counts too few
	grown("without the address space")
	l.sameAsLedger()
}

// If addresses cool in an address space of a derived pool, the block of that pool cools when the pool is retired.
func TestRetire_KeepsTheCooldownsOfAddressSpaces(t *testing.T) {
	i := newIcebox(t)
	net := i.provision("p", 28, ofNetwork("net", "a"))
	s := i.space(net.ID, "b").ID
	i.cooldown = time.Hour
	i.bind(request(s, "c", 32))
	i.free("c")
	i.cooldown = 0
	must.Do(t, i.Pools().Retire(t.Context(), net.ID))
	if k, _ := i.Pools().Capacity("p"); k.NextRelease.Before(i.clock.now().Add(59 * time.Minute)) {
		t.Errorf("the block of the pool is free at %s, want in an hour", k.NextRelease)
	}
	i.sameAsLedger()
}

// A pool that was not compared yet gets no address space, although another pool of its domain has lost changes.
func TestSpace_RefusesAPoolThatNobodyHasCompared(t *testing.T) {
	first := newLedger(t)
	first.registerIn("p", "10.0.0.0/24")
	first.registerIn("q", "10.1.0.0/24")
	l := &fixture{t: t, etcd: first.etcd, Allocator: first.open(frozenLedger)}
	must.Do(t, l.Recovery().Freeze(t.Context(), "q", time.Time{}))
	lost := exactly(request(l.space("p", "lost").ID, "lost", 0), "10.0.0.0/28")
	failsAs[*ledger.FrozenError](l.Recovery().Adopt(t.Context(), lost, ledger.Bound))(t)
}

// Overlapping pools of an address domain get no address spaces: otherwise one scope could get the same address from two
// pools.
func TestSpace_RefusesPoolsThatOverlap(t *testing.T) {
	l := newLedger(t)
	l.domain()
	var overlap *ledger.OverlapError
	if b, err := l.Bind(t.Context(), request(l.space("small", "a").ID, "c", 32)); !errors.As(err, &overlap) || overlap.With.ID != "big" {
		t.Errorf("Bind in an address space = %v, %v; want that the pool overlaps another one", b.Prefix, err)
	}
	must.Do(t, l.Pools().Retire(t.Context(), "big"))
	s := l.space("small", "a")
	l.bind(request(s.ID, "c", 32))
	if _, err := l.Pools().Register(t.Context(), member("big", "10.0.0.0/24")); !errors.As(err, &overlap) || overlap.With.ID != "small" {
		t.Errorf("Register over a pool with address spaces: %v, want that it overlaps that one", err)
	}
	l.registerIn("beside", "10.0.1.0/24")
	l.bind(request(l.space("beside", "a").ID, "d", 32))
	l.sameAsLedger()
}

// A pool has either blocks of its own or address spaces. If a block is bound in the pool at the moment at which an
// address space begins, one of the two is refused.
func TestSpace_RefusesTheAddressSpaceOrTheBlockOfThePool(t *testing.T) {
	l := newLedger(t)
	for round := range 20 {
		id := ledger.PoolID("p" + strconv.Itoa(round))
		l.pool(id, "10."+strconv.Itoa(round)+".0.0/24")
		var bindErr, spaceErr error
		atOnce(func() { _, bindErr = l.Bind(t.Context(), request(id, "c"+string(id), 32)) },
			func() { _, spaceErr = l.Bind(t.Context(), request(l.space(id, "a").ID, "s"+string(id), 32)) })
		if errors.Is(bindErr, ledger.ErrMixed) == errors.Is(spaceErr, ledger.ErrMixed) {
			t.Errorf("Bind: %v, and in an address space: %v; want one of them refused", bindErr, spaceErr)
		}
		if _, err := l.Derived().Provision(t.Context(), ledger.Request{Pool: id, Length: 26}, ofNetwork("net", string(id)), nil); (err == nil) != (bindErr == nil) {
			t.Errorf("Provision = %v beside a Bind that had %v", err, bindErr)
		}
	}
	l.sameAsLedger()
}

// All address spaces that a workspace has of a pool are for the same roles: a claim that is unique within its network
// shares no address with a claim that is unique within the same network and a location. The address spaces of published
// records come back as they were.
func TestSpace_RefusesOtherRoles(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	first := l.space("p", "red")
	l.bind(request(first.ID, "c", 32))
	within := network("red")
	within["location"] = ledger.ScopeRef{Kind: "Location", Name: "ams"}
	bindIn := func(workspace ledger.ClusterName, scope ledger.Scope, claim string) error {
		_, err := l.Bind(t.Context(), request(l.spaceFor("p", workspace, scope).ID, claim, 32))
		return err
	}
	for range 2 {
		if err := bindIn("tenant", within, "within"); !errors.Is(err, ledger.ErrMixed) {
			t.Errorf("Bind within a network and a location = %v; want ErrMixed, as there is one within a network", err)
		}
	}
	must.Do(t, bindIn("tenant", network("blue"), "in blue"))
	must.Do(t, bindIn("another", within, "of another")) // the networks of another workspace are others
	for _, claim := range []ledger.ClaimID{"c", "in blue", "of another"} {
		l.free(claim)
	}
	for len(l.Derived().Spaces("p")) > 0 {
		l.waitIdle(t)
	}
	must.Do(t, bindIn("tenant", within, "within"))
	must.Be(t, bindIn("tenant", network("red"), "in red"), ledger.ErrMixed)
	l.freeze(l.Allocator)
	published := l.space("p", "published").ID
	must.Get(l.Recovery().Adopt(t.Context(), exactly(request(published, "published", 0), "10.0.0.0/28"), ledger.Bound))(t)
	l.wantFrozen(published, true)
	l.sameAsLedger()
}
