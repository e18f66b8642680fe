package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// A range is released at the moment of a bind in its address space, by another Allocator: one of them is refused.
func TestBegin_RefusesItselfOrTheBindInAnAddressSpace(t *testing.T) {
	l, other := both(t)
	l.pool("p", "10.0.0.0/16")
	wanted := ofNetwork("net", "a")
	wanted.Derived.Holder = claim("range")
	begun := 0
	for round := range 50 {
		p, binder, releaser := l.provision("p", 24, wanted), l, other
		if round%2 == 1 {
			binder, releaser = other, l
		}
		s := l.space(p.ID, "b")
		other.catchUp(t)
		var bound, released error
		name := fmt.Sprint("c", round)
		atOnce(func() { _, bound = binder.Bind(t.Context(), request(s.ID, name, 32)) },
			func() { released = releaser.Derived().Begin(t.Context(), p.ID, "range", time.Now().Add(time.Minute)) })
		releasing, refused := errors.AsType[*ledger.ReleasingError](bound)
		switch {
		case bound == nil && errors.Is(released, ledger.ErrPoolInUse):
			l.free(ledger.ClaimID(name))
			must.Do(t, l.Derived().Drop(t.Context(), p.ID, "range", time.Time{}))
		case released == nil && refused && releasing.Pool == p.ID:
			begun++
		default:
			t.Fatalf("round %d: Bind = %v, Begin = %v", round, bound, released)
		}
		must.Do(t, other.Pools().Retire(t.Context(), p.ID))
	}
	t.Logf("begun first in %d of 50 rounds", begun)
	l.holds(0, other.Allocator)
}

// A block comes to an address space while the range above is being closed.
func TestBegin_SeesABlockThatCameMeanwhile(t *testing.T) {
	l, other := both(t)
	l.pool("p", "10.0.0.0/16")
	wanted := ofNetwork("net", "a")
	wanted.Derived.Holder = claim("range")
	p := l.provision("p", 24, wanted)
	s := l.space(p.ID, "b")
	other.catchUp(t)
	bind := sync.OnceFunc(func() { other.bind(request(s.ID, "c", 32)) })
	l.swap(func(h *engine.Hooks) {
		h.BeforeCommit = func(id ledger.SpaceID) error {
			if id == p.Space {
				bind()
			}
			return nil
		}
	})
	must.Be(t, l.Derived().Begin(t.Context(), p.ID, "range", time.Now().Add(time.Minute)), ledger.ErrPoolInUse)
	must.Do(t, l.Derived().Reopen(t.Context(), p.ID))
	l.bind(request(s.ID, "d", 32))
	must.Be(t, l.Derived().Begin(t.Context(), p.ID, "range", time.Now().Add(time.Minute)), ledger.ErrPoolInUse)
	if now, _ := l.Pools().Get(p.ID); now.Closed() {
		t.Error("a range with an address space in use was closed")
	}
	l.sameAsLedger(other.Allocator)
}

// An Allocator that stops between a range and its address spaces leaves them closed. The next claim that asks for one opens it.
func TestReopen_IsCompletedByTheNextClaim(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/16")
	p := l.provision("p", 24, ofNetwork("net", "a"))
	s := l.space(p.ID, "b")
	must.Do(t, l.Derived().Begin(t.Context(), p.ID, "", time.Now()))
	_, err := l.Bind(t.Context(), request(s.ID, "c", 32))
	if releasing, ok := errors.AsType[*ledger.ReleasingError](err); !ok || releasing.Pool != p.ID {
		t.Errorf("Bind in the address space: %v, want that %s is being released", err, p.ID)
	}
	_, err = l.Derived().Space(t.Context(), p.ID, "tenant", network("b"))
	if releasing, ok := errors.AsType[*ledger.ReleasingError](err); !ok || releasing.Pool != p.ID {
		t.Errorf("Space: %v, want that %s is being released", err, p.ID)
	}
	must.Get(l.Derived().change(t.Context(), p.ID, func(ledger.Pool) error { return nil }, func(of *ledger.Derived) { of.Releasing = time.Time{} }))(t)
	l.bind(request(l.space(p.ID, "b").ID, "c", 32))
	l.sameAsLedger()
}

// While an address space of a range cannot be read, it may have blocks: the range is not released.
func TestBegin_RefusesWhileAnAddressSpaceCannotBeRead(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.pool("p", "10.0.0.0/16")
	p := l.provision("p", 24, ofNetwork("net", "a"))
	s := l.space(p.ID, "b")
	l.bind(request(s.ID, "c", 32))
	l.put("pools/"+string(s.ID), unreadable["newer"])
	l.catchUp(t)
	for name, a := range map[string]*Allocator{"at work": l.Allocator, "opened": l.open()} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Derived().Begin(ctx, p.ID, "", time.Now()); err == nil {
			t.Errorf("%s: Begin succeeds while %s cannot be read", name, s.ID)
		}
	}
}

// An address space that cannot be read, of one workspace, keeps no other one from following their pool.
func TestSpace_FollowsBesideOneThatCannotBeRead(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	damaged := l.space("p", "damaged")
	l.bind(request(damaged.ID, "c", 32))
	var others []ledger.PoolID
	for i := range 24 {
		others = append(others, l.space("p", fmt.Sprint(i)).ID)
	}
	l.put("spaces/"+string(damaged.Space)+"/blocks/010.000.000.000-32", unreadable["newer"])
	l.catchUp(t)
	if err := l.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.128/25")}); !ledger.Unreadable(err) {
		t.Errorf("Exclude = %v, want that an address space cannot be read", err)
	}
	for _, id := range others {
		if s, _ := l.Pools().Get(id); len(s.Excluded) == 0 {
			t.Errorf("address space %s does not exclude what its pool excludes", id)
		}
	}
}

// A pool with an address space that cannot be read keeps no other pool from being completed by an Allocator that opens the ledger.
func TestSpace_FollowsItsPoolBesideOneThatCannotBeRead(t *testing.T) {
	l := newLedger(t)
	var s ledger.Pool
	for i := range 8 {
		id := ledger.PoolID(fmt.Sprint("p", i))
		p := l.pool(id, fmt.Sprintf("10.%d.0.0/24", i))
		s = l.space(id, "a")
		if i < 7 {
			l.put("spaces/"+string(s.Space)+"/head", unreadable["newer"])
		}
		must.Do(t, l.Pools().edit(t.Context(), edit{pool: p, change: func(p *ledger.Pool) { p.Excluded = []netip.Prefix{p.CIDR} }}))
	}
	other := l.open()
	for at := time.Now(); time.Since(at) < 5*time.Second; runtime.Gosched() {
		if now, _ := other.Pools().Get(s.ID); len(now.Excluded) > 0 {
			return
		}
	}
	t.Errorf("address space %s does not exclude what its pool excludes", s.ID)
}
