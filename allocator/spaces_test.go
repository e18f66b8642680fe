package allocator

import (
	"errors"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

func TestSpace(t *testing.T) {
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

// An Allocator that stops between a pool and its address spaces leaves some as they were. The next one that opens the ledger
// brings them in line.
func TestSpace_FollowsItsPoolAfterAStop(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	used, empty := l.space("p", "used"), l.space("p", "empty")
	l.bind(request(used.ID, "c", 32))
	p, _ := l.Pools().Get("p")
	must.Do(t, l.Pools().edit(t.Context(), edit{pool: p, change: func(p *ledger.Pool) {
		p.State, p.Excluded = ledger.PoolDraining, []netip.Prefix{prefix("10.0.0.128/25")}
	}}))
	l.again()
	for s, there := used, true; s.State != ledger.PoolDraining || there; _, there = l.Pools().Get(empty.ID) {
		if s, _ = l.Pools().Get(used.ID); t.Context().Err() != nil {
			t.Fatalf("the address space in use is %+v, and the empty one is there: %t", s, there)
		}
	}
	if s, _ := l.Pools().Get(used.ID); len(s.Excluded) != 1 {
		t.Errorf("the address space excludes %v, want what its pool excludes", s.Excluded)
	}
	l.free("c")
	l.waitGone("p") // it goes by itself
	l.sameAsLedger()
}

// An address space is frozen with its pool, and trusted and resumed with it.
func TestSpace_IsFrozenWithItsPool(t *testing.T) {
	first := newLedger(t)
	first.pool("p", "10.0.0.0/24")
	known := first.space("p", "known").ID
	first.bind(request(known, "c", 28))
	l := &fixture{t: t, etcd: first.etcd, Allocator: first.open(frozenLedger)}
	l.wantFrozen(known, false)
	failsAs[*ledger.FrozenError](l.Derived().Space(t.Context(), "p", "tenant", network("new")))(t)
	l.Recovery().Trust("p")
	l.bind(request(known, "d", 28))
	l.freeze(l.Allocator)
	l.wantFrozen(known, true)
	lost := l.space("p", "lost").ID // which a published record shows
	l.wantFrozen(lost, true)
	must.Get(l.Recovery().Adopt(t.Context(), exactly(request(lost, "published", 0), "10.0.0.16/28"), ledger.Bound))(t)
	l.resume(l.Allocator, 0)
	for _, id := range []ledger.PoolID{known, lost} {
		l.bind(request(id, "new-in-"+string(id), 28))
	}
	l.sameAsLedger()
}

// An address space that nobody uses goes, though a claim waits there, as for its limit. The claim is woken to ask again.
func TestSpace_WakesItsClaimsWhenItGoes(t *testing.T) {
	r := newRoom(t)
	s := r.space("p", "a")
	must.Do(t, r.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/24")}))
	r.Waits().Add(request(s.ID, "waits", 32))
	must.Do(t, r.Pools().Retire(t.Context(), s.ID))
	r.wantWoken("waits")
}

// The changes of a pool are those of its address spaces, too, also of those that have gone.
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
	grown("with an address space")
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
	must.Do(t, l.Pools().Retire(t.Context(), s))
	grown("without the address space")
	l.sameAsLedger()
}

// What cooled in an address space of a derived pool keeps the block of that pool cooling.
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

// A pool that nobody has compared yet gets no address space, although another one of its domain has lost changes.
func TestSpace_RefusesAPoolThatNobodyHasCompared(t *testing.T) {
	first := newLedger(t)
	first.registerIn("p", "10.0.0.0/24")
	first.registerIn("q", "10.1.0.0/24")
	l := &fixture{t: t, etcd: first.etcd, Allocator: first.open(frozenLedger)}
	must.Do(t, l.Recovery().Freeze(t.Context(), "q", time.Time{}))
	failsAs[*ledger.FrozenError](l.Derived().Space(t.Context(), "p", "tenant", network("lost")))(t)
}

// A process stops between a pool that it resumes and the address spaces of that. The pool can be drained then, and goes.
func TestSpace_FollowsAPoolThatIsResumedAndDrained(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.space("p", "a")
	l.freeze(l.Allocator)
	p, _ := l.Pools().Get("p")
	must.Do(t, l.Pools().edit(t.Context(), edit{pool: p, change: func(p *ledger.Pool) { p.Frozen = false }}))
	must.Do(t, l.Pools().Drain(t.Context(), "p"))
	l.waitGone("p")
	l.sameAsLedger()
}

// Pools of an address domain may overlap. None of them has address spaces then: one scope would get an address of two pools.
func TestSpace_RefusesPoolsThatOverlap(t *testing.T) {
	l := newLedger(t)
	l.domain()
	var overlap *ledger.OverlapError
	if s, err := l.Derived().Space(t.Context(), "small", "tenant", network("a")); !errors.As(err, &overlap) || overlap.With.ID != "big" {
		t.Errorf("Space = %v, %v; want that the pool overlaps another one", s.ID, err)
	}
	must.Do(t, l.Pools().Retire(t.Context(), "big"))
	s := l.space("small", "a")
	l.bind(request(s.ID, "c", 32))
	if _, err := l.Pools().Register(t.Context(), member("big", "10.0.0.0/24")); !errors.As(err, &overlap) || overlap.With.ID != "small" {
		t.Errorf("Register over a pool with address spaces: %v, want that it overlaps that one", err)
	}
	l.registerIn("beside", "10.0.1.0/24")
	l.space("beside", "a")
	l.sameAsLedger()
}

// A pool has blocks of its own, or address spaces: of a bind and an address space at the same moment one is refused.
func TestSpace_OrBlocksOfThePool(t *testing.T) {
	l := newLedger(t)
	for round := range 20 {
		id := ledger.PoolID("p" + strconv.Itoa(round))
		l.pool(id, "10."+strconv.Itoa(round)+".0.0/24")
		var bindErr, spaceErr error
		atOnce(func() { _, bindErr = l.Bind(t.Context(), request(id, "c"+string(id), 32)) },
			func() { _, spaceErr = l.Derived().Space(t.Context(), id, "tenant", network("a")) })
		if errors.Is(bindErr, ledger.ErrMixed) == errors.Is(spaceErr, ledger.ErrMixed) {
			t.Errorf("Bind: %v, and Space: %v; want one of them refused", bindErr, spaceErr)
		}
		if _, err := l.Derived().Provision(t.Context(), ledger.Request{Pool: id, Length: 26}, ofNetwork("net", string(id)), nil); (err == nil) != (bindErr == nil) {
			t.Errorf("Provision = %v beside a Bind that had %v", err, bindErr)
		}
	}
	l.sameAsLedger()
}

// A claim that is unique within its network shares no address with one that is unique within the same network and a location: all address
// spaces that a workspace has of a pool are for the same roles. Those of published records come back as they were.
func TestSpace_IsForTheSameRolesAsTheOthers(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	first := l.space("p", "red")
	l.bind(request(first.ID, "c", 32))
	within := network("red")
	within["location"] = ledger.ScopeRef{Kind: "Location", Name: "ams"}
	for range 2 {
		if s, err := l.Derived().Space(t.Context(), "p", "tenant", within); !errors.Is(err, ledger.ErrMixed) {
			t.Errorf("Space within a network and a location = %s, %v; want ErrMixed, as there is one within a network", s.ID, err)
		}
	}
	l.space("p", "blue")
	must.Get(l.Derived().Space(t.Context(), "p", "another", within))(t) // the networks of another workspace are others
	l.free("c")
	for s := range l.Derived().All() {
		must.Do(t, l.Pools().Retire(t.Context(), s.ID))
	}
	must.Get(l.Derived().Space(t.Context(), "p", "tenant", within))(t)
	must.Fail(l.Derived().Space(t.Context(), "p", "tenant", network("red")))(t, ledger.ErrMixed)
	l.freeze(l.Allocator)
	l.wantFrozen(l.space("p", "published").ID, true)
	l.sameAsLedger()
}
