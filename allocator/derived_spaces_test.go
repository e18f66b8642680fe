package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// If an address space of a range cannot be read, it may have blocks. The range is not closed until the address space
// can be read. The error names the key that cannot be read.
func TestBegin_RefusesWhileAnAddressSpaceCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"pools/%s", "spaces/%s/head", "spaces/%s/blocks/010.000.000.000-32"} {
		l := withPool(t, "10.0.0.0/16")
		p := l.provision("p", 24, ofNetwork("net", "a"))
		s := l.space(p.ID, "b")
		l.bind(request(s.ID, "c", 32))
		mend := l.spoil(fmt.Sprintf(key, s.ID), unreadable["newer"])
		l.again()
		_, err := l.Derived().Begin(t.Context(), p.ID, "", time.Now())
		wantUnreadable(t, "Begin", err, fmt.Sprintf(key, s.ID))
		mend()
		l.again()
		l.free("c")
		must.Get(l.Derived().Begin(t.Context(), p.ID, "", time.Now()))(t)
	}
}

// A range with a block in one of its address spaces is in use, although the range itself has no block.
func TestBegin_RefusesARangeWithABlockInAnAddressSpace(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	p := l.provision("p", 24, held("a"))
	l.bind(request(l.space(p.ID, "b").ID, "c", 32))
	if first, err := l.Derived().Begin(t.Context(), p.ID, "range", time.Now().Add(time.Minute)); !errors.Is(err, ledger.ErrPoolInUse) {
		t.Errorf("Begin = %t, %v; want ErrPoolInUse", first, err)
	}
}

// If one address space of a pool cannot be read, the pool can be changed nevertheless, and its other address spaces
// follow it.
func TestSpace_FollowsItsPoolBesideAnUnreadableSpace(t *testing.T) {
	for _, key := range []string{"pools/%s", "spaces/%s/head", "spaces/%s/blocks/010.000.000.000-32"} {
		l := withPool(t, "10.0.0.0/24")
		damaged, other := l.space("p", "damaged"), l.space("p", "other")
		for _, s := range []ledger.Pool{damaged, other} {
			l.bind(request(s.ID, "in"+string(s.ID), 32))
		}
		l.put(fmt.Sprintf(key, damaged.ID), unreadable["newer"])
		l.again()
		must.Do(t, l.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/25")}))
		l.gets(request(other.ID, "next", 32), "10.0.0.128/32")
		if _, err := l.Bind(t.Context(), request(damaged.ID, "next in it", 32)); !ledger.Unreadable(err) {
			t.Errorf("%s: Bind in it = %v, want that it cannot be read", key, err)
		}
	}
}

// A repeated Hold keeps the time of the first. Drop with that time ends this hold, and not a later one of the same
// claim.
func TestDrop_LeavesALaterHold(t *testing.T) {
	c := newClock()
	l := newLedger(t)
	l.swap(func(h *engine.Hooks) { h.Now = c.now })
	l.pool("p", "10.0.0.0/16")
	p, by, d := l.provision("p", 24, ofNetwork("net", "a")), claim(allocationID("range")), l.Derived()
	var since []time.Time
	for range 2 {
		first := must.Get(d.Hold(t.Context(), p.ID, by))(t).Derived.HeldSince
		since = append(since, first)
		c.advance(time.Minute)
		if again := must.Get(d.Hold(t.Context(), p.ID, by))(t).Derived.HeldSince; !again.Equal(first) {
			t.Errorf("held once more it is held since %s; want %s, as before", again, first)
		}
		if len(since) < 2 {
			must.Do(t, d.Drop(t.Context(), p.ID, by.Claim, first))
		}
	}
	must.Be(t, d.Drop(t.Context(), p.ID, by.Claim, since[0]), ledger.ErrChanged)
	if _, ok := d.Held(by.Claim); !ok {
		t.Error("the claim does not hold the range any more")
	}
	must.Do(t, d.Drop(t.Context(), p.ID, by.Claim, since[1]))
	if _, ok := d.Held(by.Claim); ok {
		t.Error("the claim holds the range still")
	}
}

// Two kinds of pools in other workspaces count for a workspace: its address spaces in these pools, and the shared pools
// that it was the first to need. That is the same after a restart.
func TestCount_AddsPoolsInOtherWorkspaces(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	l.pool("flat", "10.1.0.0/16")
	p, ok := l.Pools().Get("p")
	if !ok {
		t.Fatal("the pool is not known")
	}
	before := l.Pools().Count(p.Cluster)
	shared := ledger.Pool{Cluster: p.Cluster, Name: "net-a", Derived: &ledger.Derived{Class: "net", Scope: network("a"), By: "first"}}
	shared = l.provision("p", 24, shared)
	again := *shared.Derived
	again.By = "second"
	l.provision("p", 24, ledger.Pool{Cluster: p.Cluster, Name: "net-a", Derived: &again})
	flat := l.spaceFor("flat", "first", network("a")).ID
	l.bind(request(flat, "c", 32))
	for range 2 {
		if first, second, own := l.Pools().Count("first"), l.Pools().Count("second"), l.Pools().Count(p.Cluster); first != 2 || second != 0 || own != before+2 {
			t.Errorf("counted %d, %d and %d, want 2, 0 and %d", first, second, own, before+2)
		}
		l.again()
	}
	l.free("c")
	l.waitGone(flat)
	must.Do(t, l.Pools().Retire(t.Context(), shared.ID))
	if n := l.Pools().Count("first"); n != 0 {
		t.Errorf("counted %d when they are gone, want 0", n)
	}
}

// The derived pools of a name are found in their workspace until they are retired, also after a restart.
func TestNamed_ListsThePoolsOfAName(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	l.pool("net-a", "10.1.0.0/16") // its name, too
	first, second, elsewhere := ofNetwork("net", "a"), ofNetwork("net", "b"), ofNetwork("net", "c")
	second.Name, elsewhere.Name, elsewhere.Cluster = first.Name, first.Name, "platform"
	want := []ledger.PoolID{l.provision("p", 24, first).ID, l.provision("p", 24, second).ID}
	l.provision("p", 24, elsewhere)
	l.provision("p", 24, ofNetwork("net", "d"))
	slices.Sort(want)
	check := func(allocators ...*Allocator) {
		for _, a := range allocators {
			got := a.Derived().Named("tenant", "net-a")
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("Named = %v, want %v", got, want)
			}
		}
	}
	check(l.Allocator, l.again())
	must.Do(t, l.Pools().Retire(t.Context(), want[0]))
	want = want[1:]
	check(l.Allocator, l.again())
}
