package allocator

import (
	"errors"
	"math/big"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// network returns the scope of a network.
func network(name string) ledger.Scope {
	return ledger.Scope{"network": {APIGroup: "networking.example", Kind: "Network", Name: name}}
}

// ofNetwork returns the derived pool that a class has for a network of the workspace "tenant".
func ofNetwork(class, name string) ledger.Pool {
	return ledger.Pool{Cluster: "tenant", Name: class + "-" + name, Derived: &ledger.Derived{Class: class, Workspace: "tenant", Scope: network(name)}}
}

// held returns the derived pool of class net for a network. The claim "range" holds that pool.
func held(network string) ledger.Pool {
	p := ofNetwork("net", network)
	p.Derived.Holder = claim("range")
	return p
}

// provision provisions a pool, and fails the test if Provision fails.
func (l *fixture) provision(parent ledger.PoolID, length int, p ledger.Pool) ledger.Pool {
	l.t.Helper()
	p, err := l.Derived().Provision(l.t.Context(), ledger.Request{Pool: parent, Begins: begins(parent), Length: length}, p, nil)
	if err != nil {
		l.t.Fatalf("Provision of %s: %v", p.Name, err)
	}
	return p
}

// space returns the address space of a pool for a network of the workspace "tenant". The ledger has it from its first
// block on.
func (l *fixture) space(of ledger.PoolID, name string) ledger.Pool {
	l.t.Helper()
	return l.spaceFor(of, "tenant", network(name))
}

func (l *fixture) spaceFor(of ledger.PoolID, workspace ledger.ClusterName, scope ledger.Scope) ledger.Pool {
	l.t.Helper()
	p, ok := l.Pools().Get(of)
	if !ok {
		l.t.Fatalf("there is no pool %s", of)
	}
	s := ledger.Derived{Workspace: workspace, Scope: scope}.In(p)
	spaces.Store(s.ID, s.Derived)
	return s
}

// spaces are the address spaces that tests have asked for.
var spaces sync.Map

// begins returns the address space that a request of this pool begins; nil: the pool is no address space.
func begins(id ledger.PoolID) *ledger.Derived {
	of, _ := spaces.Load(id)
	begins, _ := of.(*ledger.Derived)
	return begins
}

func claim(id ledger.ClaimID) ledger.Holder {
	return ledger.Holder{Claim: id, Cluster: "tenant", Namespace: "default", Name: string(id)}
}

func TestProvision_IsIdempotent(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	first := func(cidr netip.Prefix) []netip.Prefix { return []netip.Prefix{netip.PrefixFrom(cidr.Addr(), 32)} }
	wanted := ofNetwork("net", "a")
	made, err := l.Derived().Provision(t.Context(), ledger.Request{Pool: "p", Length: 24}, wanted, first)
	if err != nil || made.ID != wanted.Derived.ID() || made.CIDR != prefix("10.0.0.0/24") || made.Excluded[0] != prefix("10.0.0.0/32") {
		t.Fatalf("Provision = %+v, %v; want 10.0.0.0/24 without its first address", made, err)
	}
	for range 2 {
		if again := l.provision("p", 26, wanted); again.CIDR != made.CIDR || again.RegisteredAt != made.RegisteredAt || again.Derived.Scope["network"].Name != "a" {
			t.Errorf("Provision again = %+v, want the same pool as before: %+v", again, made)
		}
	}
	l.gets(request(made.ID, "endpoint", 32), "10.0.0.1/32")
	if second := l.provision("p", 24, ofNetwork("net", "b")); second.CIDR != prefix("10.0.1.0/24") {
		t.Errorf("another network has %s, want 10.0.1.0/24", second.CIDR)
	}
	l.sameAsLedger()
}

func TestHold_KeepsThePoolForOneClaim(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	d := l.Derived()
	p := l.provision("p", 24, ofNetwork("net", "a"))
	must.Get(d.Hold(t.Context(), p.ID, claim("range")))(t)
	for range 2 {
		if held, ok := l.Derived().Held("range"); !ok || held.ID != p.ID {
			t.Errorf("Held = %s, %t; want %s", held.ID, ok, p.ID)
		}
		d = l.again().Derived()
	}
	if again, err := d.Hold(t.Context(), p.ID, claim("range")); err != nil || again.Derived.Holder != claim("range") {
		t.Errorf("Hold again = %+v, %v", again.Derived, err)
	}
	var held *ledger.HeldError
	if _, err := d.Hold(t.Context(), p.ID, claim("rival")); !errors.As(err, &held) || held.By != claim("range") {
		t.Errorf("Hold by a rival: %v, want that %v holds it", err, claim("range"))
	}
	must.Be(t, l.Pools().Retire(t.Context(), p.ID), ledger.ErrPoolInUse)
	if ok, err := d.Hand(t.Context(), p.ID, "rival", claim("next")); ok || err != nil {
		t.Errorf("Hand by a rival = %t, %v; want false", ok, err)
	}
	for range 2 {
		if ok, err := d.Hand(t.Context(), p.ID, "range", claim("next")); !ok || err != nil {
			t.Errorf("Hand = %t, %v; want true", ok, err)
		}
	}
	if _, ok := d.Held("range"); ok {
		t.Error("the former holder holds the pool")
	}
	must.Do(t, d.Drop(t.Context(), p.ID, "range", time.Time{})) // which does not hold it
	if _, ok := d.Held("next"); !ok {
		t.Error("the pool was dropped by a claim that does not hold it")
	}
	must.Do(t, d.Drop(t.Context(), p.ID, "next", time.Time{}))
	must.Do(t, l.Pools().Retire(t.Context(), p.ID))
	must.Fail(d.Hold(t.Context(), p.ID, claim("range")))(t, ledger.ErrUnknownPool)
	l.sameAsLedger()
}

func TestBegin_ClosesThePoolUntilItIsReopened(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	d, until := l.Derived(), time.Now().Add(time.Minute)
	wanted := held("a")
	p := l.provision("p", 24, wanted)
	l.bind(request(p.ID, "endpoint", 32))
	must.Fail(d.Begin(t.Context(), p.ID, "range", until))(t, ledger.ErrPoolInUse)
	l.free("endpoint")
	must.Fail(d.Begin(t.Context(), p.ID, "rival", until))(t, ledger.ErrChanged)
	must.Get(d.Begin(t.Context(), p.ID, "range", until))(t)
	refused := func(what string, err error) {
		t.Helper()
		if releasing := (*ledger.ReleasingError)(nil); !errors.As(err, &releasing) || releasing.Pool != p.ID {
			t.Errorf("%s: %v, want that %s is being released", what, err, p.ID)
		}
	}
	_, err := l.Bind(t.Context(), request(p.ID, "endpoint", 32))
	refused("Bind", err)
	_, err = l.Preview(t.Context(), request(p.ID, "endpoint", 32))
	refused("Preview", err)
	_, err = d.Provision(t.Context(), ledger.Request{Pool: p.ID, Length: 28}, ofNetwork("sub", "a"), nil)
	refused("Provision below", err)
	_, err = d.Provision(t.Context(), ledger.Request{Pool: "p", Length: 24}, wanted, nil)
	refused("Provision", err)
	_, err = l.Bind(t.Context(), request(l.space(p.ID, "b").ID, "of an address space", 32))
	refused("Bind in an address space", err)
	_, err = d.Hold(t.Context(), p.ID, claim("range"))
	refused("Hold", err)
	must.Do(t, d.Reopen(t.Context(), p.ID, until))
	l.bind(request(p.ID, "endpoint", 32))
	l.free("endpoint")
	must.Get(d.Begin(t.Context(), p.ID, "range", until))(t)
	must.Do(t, l.Pools().Retire(t.Context(), p.ID))
	if again := l.provision("p", 24, wanted); again.Closed() || again.Derived.Holder != claim("range") {
		t.Errorf("the pool that was made again is %+v", again.Derived)
	}
	l.sameAsLedger()
}

func TestBelow_ListsTheDeepestFirst(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	top := l.provision("p", 20, ofNetwork("net", "a"))
	low := l.provision(top.ID, 24, ofNetwork("sub", "a"))
	s := l.space(low.ID, "b")
	l.bind(request(s.ID, "c", 32))
	must.Get(l.carve("p", "child", 24))(t)
	under := l.provision("child", 26, ofNetwork("net", "c"))
	var got []ledger.PoolID
	at := map[ledger.PoolID]int{}
	for i, p := range l.Derived().Below("p") {
		got, at[p.ID] = append(got, p.ID), i
	}
	if len(got) != 4 || at[s.ID] > at[low.ID] || at[low.ID] > at[top.ID] {
		t.Errorf("Below = %v; want %s before %s before %s, and %s", got, s.ID, low.ID, top.ID, under.ID)
	}
	l.sameAsLedger()
}

// A pool in which there are only idle derived pools is not in use. If one of these has a block, or a claim holds it,
// the pools above it are in use.
func TestInUse_DoesNotCountIdleDerivedPools(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	d := l.Derived()
	use := func(want bool, ids ...ledger.PoolID) {
		t.Helper()
		for _, id := range ids {
			if got := l.Pools().InUse(id); got != want {
				t.Errorf("InUse(%s) = %t, want %t", id, got, want)
			}
		}
	}
	top := l.provision("p", 20, ofNetwork("net", "a"))
	low := l.provision(top.ID, 24, ofNetwork("sub", "a"))
	l.provision("p", 20, ofNetwork("net", "b"))
	use(false, "p", top.ID, low.ID)
	l.bind(request(low.ID, "endpoint", 32))
	use(true, "p", top.ID, low.ID)
	l.free("endpoint")
	must.Get(d.Hold(t.Context(), low.ID, claim("range")))(t)
	use(true, "p", top.ID)
	must.Do(t, d.Drop(t.Context(), low.ID, "range", time.Time{}))
	use(false, "p", top.ID, low.ID)
	l.bind(request("p", "flat", 32))
	use(true, "p")
	l.free("flat")
	use(false, "p")
	for _, p := range d.Below("p") {
		must.Do(t, l.Pools().Retire(t.Context(), p.ID))
	}
	must.Do(t, l.Pools().Retire(t.Context(), "p"))
	l.sameAsLedger()
}

// A derived pool is made again while its former block cools. With the same length it gets that block, with another
// length another one.
func TestProvision_GetsItsFormerBlockBackWhileItCools(t *testing.T) {
	i := newIcebox(t)
	wanted := ofNetwork("net", "a")
	first := i.provision("p", 28, wanted)
	must.Do(t, i.Pools().Retire(t.Context(), first.ID))
	if again := i.provision("p", 28, wanted); again.CIDR != first.CIDR {
		t.Errorf("Provision = %s, want the former block %s", again.CIDR, first.CIDR)
	}
	must.Do(t, i.Pools().Retire(t.Context(), first.ID))
	if other := i.provision("p", 27, wanted); other.CIDR.Overlaps(first.CIDR) || other.CIDR.Bits() != 27 {
		t.Errorf("Provision = %s, want a /27 beside %s, which cools", other.CIDR, first.CIDR)
	}
	i.sameAsLedger()
}

// A derived pool was published, and the ledger has lost it. It is restored with its CIDR, its exclusions and its
// holder, and is frozen.
func TestAdoptedAgain_RestoresADerivedPool(t *testing.T) {
	l := newLedger(t, frozenLedger)
	l.pool("p", "10.0.0.0/16")
	l.Recovery().Trust("p")
	wanted := ofNetwork("net", "a")
	wanted.ID, wanted.Derived.Holder = wanted.Derived.ID(), claim("range")
	wanted.Excluded = []netip.Prefix{prefix("10.0.7.0/28")}
	req := exactly(request("p", string(wanted.ID), 0), "10.0.7.0/24")
	p, err := l.Recovery().Readopt(t.Context(), req, wanted)
	if err != nil || len(p.Excluded) != 1 || p.CIDR != prefix("10.0.7.0/24") || !p.Frozen || p.Derived.ID() != p.ID || p.Derived.Holder != claim("range") {
		t.Fatalf("Readopt = %+v, %v; want the derived pool at 10.0.7.0/24, frozen", p, err)
	}
	l.wantFrozen(p.ID, true)
	if again := l.provision("p", 24, wanted); again.CIDR != p.CIDR {
		t.Errorf("Provision = %s, want %s", again.CIDR, p.CIDR)
	}
	must.Do(t, l.Recovery().Resume(t.Context(), p.ID, 0))
	l.bind(request(p.ID, "endpoint", 32))
	if fresh := l.provision("p", 24, ofNetwork("net", "b")); l.Recovery().Frozen(fresh.ID) {
		t.Error("a new derived pool is frozen")
	}
	wanted.ID = "derived.forged"
	req.Holder.Claim = ledger.ClaimID(wanted.ID)
	must.Fail(l.Recovery().Readopt(t.Context(), req, wanted))(t, ledger.ErrInvalid)
	l.sameAsLedger()
}

// While a derived pool is closed, the claims that wait for room in it are not served. When it is opened again, they
// are.
func TestReopen_ServesWaitingClaims(t *testing.T) {
	r := newRoom(t)
	p := r.provision("p", 30, held("a"))
	must.Get(r.Derived().Begin(t.Context(), p.ID, "range", time.Now()))(t)
	r.Waits().Add(request(p.ID, "waits", 32))
	r.wantWoken()
	must.Do(t, r.Derived().Reopen(t.Context(), p.ID, closedUntilOf(r.Allocator, p.ID)))
	r.wantWoken("waits")
	r.bind(request(p.ID, "waits", 32))
	r.sameAsLedger()
}

// The reservation of a derived pool counts as allocated: if the first /96 of a /64 is reserved and another one is given
// out, two are allocated.
func TestCapacity_CountsTheReservationOfADerivedPool(t *testing.T) {
	l := withPool(t, "2001:db8::/48")
	reserved := func(cidr netip.Prefix) []netip.Prefix { return []netip.Prefix{netip.PrefixFrom(cidr.Addr(), 96)} }
	made := must.Get(l.Derived().Provision(t.Context(), ledger.Request{Pool: "p", Length: 64}, ofNetwork("subnet", "a"), reserved))(t)
	for _, want := range []string{"4294967296", "8589934592", "12884901888"} {
		c, _ := l.Pools().Capacity(made.ID)
		if got := c.Allocated.String(); got != want {
			t.Errorf("after %d /96 there are %s addresses allocated, want %s", c.Blocks, got, want)
		}
		if sum := new(big.Int).Add(c.Allocated, c.Available); sum.String() != "18446744073709551616" || sum.Cmp(c.Total) != 0 {
			t.Errorf("allocated and available are %s, of %s; want all of the /64", sum, c.Total)
		}
		l.bind(request(made.ID, want, 96))
	}
}

// A claim may ask each candidate for its capacity. So the capacity of a pool costs the same however many networks have
// a pool or an address space below it.
func TestCapacity_CostsTheSameForManyNetworks(t *testing.T) {
	l := newLedger(t)
	for _, id := range []ledger.PoolID{"carved", "spaces"} {
		l.pool(id, map[ledger.PoolID]string{"carved": "10.0.0.0/16", "spaces": "10.1.0.0/16"}[id])
	}
	below := func(from, to int) {
		for i := range to - from {
			l.provision("carved", 28, ofNetwork("net", strconv.Itoa(from+i)))
			l.bind(request(l.space("spaces", strconv.Itoa(from+i)).ID, "in"+strconv.Itoa(from+i), 32))
		}
	}
	below(0, 1)
	cost := func(id ledger.PoolID) float64 { return testing.AllocsPerRun(1000, func() { l.Pools().Capacity(id) }) }
	few := map[ledger.PoolID]float64{"carved": cost("carved"), "spaces": cost("spaces")}
	below(1, 100)
	for id, few := range few {
		if many := cost(id); many > few+3 {
			t.Errorf("pool %s: %v allocations of memory with 100 networks, and %v with one; want as many", id, many, few)
		}
	}
}
