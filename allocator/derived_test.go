package allocator

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// network returns the scope of a network.
func network(name string) ledger.Scope {
	return ledger.Scope{"network": {APIGroup: "networking.example", Kind: "Network", Name: name}}
}

// ofNetwork returns the derived pool that a class has for a network of the workspace "tenant".
func ofNetwork(class, name string) Pool {
	return Pool{Cluster: "tenant", Name: class + "-" + name, Derived: &ledger.Derived{Class: class, Workspace: "tenant", Scope: network(name)}}
}

// provision provisions a pool, and fails the test if that fails.
func (l *fixture) provision(parent PoolID, length int, p Pool) Pool {
	l.t.Helper()
	p, err := l.Derived().Provision(l.t.Context(), Request{Pool: parent, Length: length}, p, nil)
	if err != nil {
		l.t.Fatalf("Provision of %s: %v", p.Name, err)
	}
	return p
}

// space registers an address space of a pool for a network of the workspace "tenant".
func (l *fixture) space(of PoolID, name string) Pool {
	l.t.Helper()
	p, err := l.Derived().Space(l.t.Context(), of, "tenant", network(name))
	if err != nil {
		l.t.Fatalf("Space of %s for %s: %v", of, name, err)
	}
	return p
}

func (l *fixture) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func claim(id ClaimID) Holder {
	return Holder{Claim: id, Cluster: "tenant", Namespace: "default", Name: string(id)}
}

func TestProvision_IsIdempotent(t *testing.T) {
	l := newLedger(t)
	other := &fixture{t: t, etcd: l.etcd, Allocator: l.open()}
	l.pool("p", "10.0.0.0/16")
	first := func(cidr netip.Prefix) []netip.Prefix { return []netip.Prefix{netip.PrefixFrom(cidr.Addr(), 32)} }
	wanted := ofNetwork("net", "a")
	made, err := l.Derived().Provision(t.Context(), Request{Pool: "p", Length: 24}, wanted, first)
	if err != nil || made.ID != wanted.Derived.ID() || made.CIDR != prefix("10.0.0.0/24") || made.Excluded[0] != prefix("10.0.0.0/32") {
		t.Fatalf("Provision = %+v, %v; want 10.0.0.0/24 without its first address", made, err)
	}
	for _, a := range []*fixture{l, other} {
		if again := a.provision("p", 26, wanted); again.CIDR != made.CIDR || again.RegisteredAt != made.RegisteredAt || again.Derived.Scope["network"].Name != "a" {
			t.Errorf("Provision again = %+v, want the same pool as before: %+v", again, made)
		}
	}
	if b := other.bind(request(made.ID, "endpoint", 32)); b.Prefix != prefix("10.0.0.1/32") {
		t.Errorf("Bind = %s, want the first that is not excluded, 10.0.0.1/32", b.Prefix)
	}
	if second := l.provision("p", 24, ofNetwork("net", "b")); second.CIDR != prefix("10.0.1.0/24") {
		t.Errorf("another network has %s, want 10.0.1.0/24", second.CIDR)
	}
	l.sameAsLedger(other.Allocator, l.open())
}

func TestHold(t *testing.T) {
	l := newLedger(t)
	other := l.open()
	l.pool("p", "10.0.0.0/16")
	d := l.Derived()
	p := l.provision("p", 24, ofNetwork("net", "a"))
	if _, err := d.Hold(t.Context(), p.ID, claim("range")); err != nil {
		t.Fatalf("Hold: %v", err)
	}
	other.catchUp(t)
	for _, a := range []*Allocator{l.Allocator, other, l.open()} {
		if held, ok := a.Derived().Held("range"); !ok || held.ID != p.ID {
			t.Errorf("Held = %s, %t; want %s", held.ID, ok, p.ID)
		}
	}
	if again, err := d.Hold(t.Context(), p.ID, claim("range")); err != nil || again.Derived.Holder != claim("range") {
		t.Errorf("Hold again = %+v, %v", again.Derived, err)
	}
	var held *HeldError
	if _, err := other.Derived().Hold(t.Context(), p.ID, claim("rival")); !errors.As(err, &held) || held.By != claim("range") {
		t.Errorf("Hold by a rival: %v, want that %v holds it", err, claim("range"))
	}
	if err := l.Retire(t.Context(), p.ID); !errors.Is(err, ErrPoolInUse) {
		t.Errorf("Retire of a held pool: %v, want ErrPoolInUse", err)
	}
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
	l.must(d.Drop(t.Context(), p.ID, "range")) // which does not hold it
	if _, ok := d.Held("next"); !ok {
		t.Error("the pool was dropped by a claim that does not hold it")
	}
	l.must(d.Drop(t.Context(), p.ID, "next"))
	l.must(l.Retire(t.Context(), p.ID))
	if _, err := d.Hold(t.Context(), p.ID, claim("range")); !errors.Is(err, ErrUnknownPool) {
		t.Errorf("Hold of a pool that is gone: %v, want ErrUnknownPool", err)
	}
	l.sameAsLedger(other)
}

func TestBegin(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/16")
	d, until := l.Derived(), time.Now().Add(time.Minute)
	wanted := ofNetwork("net", "a")
	wanted.Derived.Holder = claim("range")
	p := l.provision("p", 24, wanted)
	l.bind(request(p.ID, "endpoint", 32))
	if err := d.Begin(t.Context(), p.ID, "range", until); !errors.Is(err, ErrPoolInUse) {
		t.Errorf("Begin of a pool with a block: %v, want ErrPoolInUse", err)
	}
	l.free("endpoint")
	if err := d.Begin(t.Context(), p.ID, "rival", until); !errors.Is(err, ErrChanged) {
		t.Errorf("Begin by a rival: %v, want ErrChanged", err)
	}
	l.must(d.Begin(t.Context(), p.ID, "range", until))
	refused := func(what string, err error) {
		t.Helper()
		if releasing := (*ReleasingError)(nil); !errors.As(err, &releasing) || releasing.Pool != p.ID {
			t.Errorf("%s: %v, want that %s is being released", what, err, p.ID)
		}
	}
	_, err := l.Bind(t.Context(), request(p.ID, "endpoint", 32))
	refused("Bind", err)
	_, err = l.Reserve(t.Context(), reservationIn(p.ID))
	refused("Reserve", err)
	_, err = d.Provision(t.Context(), Request{Pool: p.ID, Length: 28}, ofNetwork("sub", "a"), nil)
	refused("Provision below", err)
	_, err = d.Provision(t.Context(), Request{Pool: "p", Length: 24}, wanted, nil)
	refused("Provision", err)
	_, err = d.Space(t.Context(), p.ID, "tenant", network("b"))
	refused("Space", err)
	_, err = d.Hold(t.Context(), p.ID, claim("range"))
	refused("Hold", err)
	l.must(d.Reopen(t.Context(), p.ID))
	l.bind(request(p.ID, "endpoint", 32))
	l.free("endpoint")
	l.must(d.Begin(t.Context(), p.ID, "range", until))
	l.must(l.Retire(t.Context(), p.ID))
	if again := l.provision("p", 24, wanted); !again.Derived.Releasing.IsZero() || again.Derived.Holder != claim("range") {
		t.Errorf("the pool that was made again is %+v", again.Derived)
	}
	l.sameAsLedger()
}

func reservationIn(p PoolID) Request {
	r := request(p, "new", 32)
	r.Holder.Claim = ReservationID("tenant", "sum")
	return r
}

func TestSpace(t *testing.T) {
	l := newLedger(t)
	other := &fixture{t: t, etcd: l.etcd, Allocator: l.open()}
	l.pool("p", "10.0.0.0/24")
	l.must(l.Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/32")}))
	a, b := l.space("p", "a"), other.space("p", "b")
	if again := other.space("p", "a"); again.ID != a.ID || a.ID == b.ID {
		t.Errorf("the spaces are %s, %s, and %s again; want two", a.ID, b.ID, again.ID)
	}
	for claim, s := range map[string]Pool{"in-a": a, "in-b": b} {
		if got := l.bind(request(s.ID, claim, 32)); got.Prefix != prefix("10.0.0.1/32") {
			t.Errorf("Bind in %s = %s, want 10.0.0.1/32", s.ID, got.Prefix)
		}
	}
	if _, err := l.Register(t.Context(), Pool{ID: "q", Cluster: "platform", Name: "q", CIDR: prefix("10.0.1.0/24")}); err != nil {
		t.Errorf("Register beside the address spaces: %v", err)
	}
	l.must(l.Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/30")}))
	if got := l.bind(request(a.ID, "next", 32)); got.Prefix != prefix("10.0.0.4/32") {
		t.Errorf("Bind after Exclude = %s, want 10.0.0.4/32", got.Prefix)
	}
	if err := l.Retire(t.Context(), "p"); !errors.Is(err, ErrPoolInUse) {
		t.Errorf("Retire of a pool with used address spaces: %v, want ErrPoolInUse", err)
	}
	l.sameAsLedger(other.Allocator, l.open())
	l.must(l.Drain(t.Context(), "p"))
	for _, s := range []Pool{a, b} {
		if _, err := l.Bind(t.Context(), request(s.ID, "late", 32)); !errors.Is(err, ErrPoolDraining) {
			t.Errorf("Bind in an address space of a draining pool: %v", err)
		}
	}
	for _, claim := range []ClaimID{"in-a", "in-b", "next"} {
		l.free(claim)
	}
	for known := true; known; _, _, known, _ = l.Registered(t.Context(), "p") { // it goes by itself
	}
	if blocks := l.sameAsLedger(other.Allocator); len(blocks) > 0 {
		t.Errorf("%v are left", blocks)
	}
}

func TestBelow_ListsTheDeepestFirst(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/16")
	top := l.provision("p", 20, ofNetwork("net", "a"))
	low := l.provision(top.ID, 24, ofNetwork("sub", "a"))
	s := l.space(low.ID, "b")
	if _, err := l.carve("p", "child", 24); err != nil {
		t.Fatalf("carve: %v", err)
	}
	under := l.provision("child", 26, ofNetwork("net", "c"))
	var got []PoolID
	at := map[PoolID]int{}
	for i, p := range l.Derived().Below("p") {
		got, at[p.ID] = append(got, p.ID), i
	}
	if len(got) != 4 || at[s.ID] > at[low.ID] || at[low.ID] > at[top.ID] {
		t.Errorf("Below = %v; want %s before %s before %s, and %s", got, s.ID, low.ID, top.ID, under.ID)
	}
	l.sameAsLedger(l.open())
}
