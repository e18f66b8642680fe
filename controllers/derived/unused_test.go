package derived

import (
	"strings"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// A class is in use while a claim holds one of its pools, or has a block in one of them, or in a pool below one. Idle
// pools do not count.
func TestRetireClass_CountsPoolsInUse(t *testing.T) {
	s := newScene(t)
	wantUsed := func(class, want string) {
		t.Helper()
		used, err := s.RetireClass(t.Context(), class)
		if err != nil || want == "" && used != "" || !strings.HasPrefix(used, want) {
			t.Errorf("class %s is in use: %q, %v; want %q", class, used, err, want)
		}
	}
	wantUsed("net", "")
	net := s.network("net", "a", "root", 24)
	sub := s.network("sub", "a", net.ID, 28)
	wantUsed("net", "")
	inside := s.bind(sub, "inside")
	wantUsed("net", `class "net" is in use: claims hold 1 pool that it has made`)
	wantUsed("sub", `class "sub" is in use`)
	must.Get(s.Settle(t.Context(), holderOf(inside)))(t)
	wantUsed("net", `class "net" is in use`) // the claim is there
	s.deletes(inside)
	must.Get(s.Settle(t.Context(), holderOf(inside)))(t)
	wantUsed("net", "")
	s.ranged("net", "b", "root", 24)
	wantUsed("net", `class "net" is in use: claims hold 1 pool`)
	wantUsed("sub", "")
}

// A class may be deleted as soon as the claim of its range is gone. While no server answers, it may not.
func TestRetireClass_RetiresARangeWhoseClaimIsGone(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	s.mustClose(claim)
	s.deletes(claim)
	s.away = true
	if used, err := s.RetireClass(t.Context(), "net"); used == "" && err == nil {
		t.Error("the class may be deleted while nobody can tell whether the claim is gone")
	}
	s.away = false
	if used, err := s.RetireClass(t.Context(), "net"); used != "" || err != nil || s.known(p) {
		t.Errorf("the class is in use: %q, %v, the range is known: %t; want it gone", used, err, s.known(p))
	}
}

// An idle pool is closed for its DELETE, and the idle pools below it are retired. When its IPPool is gone, it is
// retired, too. A dry run changes nothing.
func TestRetirePool_ClosesAnIdlePool(t *testing.T) {
	s := newScene(t)
	net := s.network("net", "a", "root", 24)
	sub := s.network("sub", "a", net.ID, 28)
	object := s.object(net)
	for _, dry := range []bool{true, false} {
		if used, err := s.RetirePool(t.Context(), tenant, object, dry); used != "" || err != nil {
			t.Fatalf("RetirePool, dry run %t = %q, %v; want that it may go", dry, used, err)
		}
		if now, ok := s.alloc.Pools().Get(net.ID); !ok || now.Closed() == dry || s.known(sub) != dry {
			t.Errorf("after dry run %t the pool is %+v, %t; that below is there: %t", dry, now.Derived, ok, s.known(sub))
		}
	}
	s.deletes(object)
	s.look(net)
	if s.known(net) || s.object(net) != nil {
		t.Error("the pool is there after its DELETE")
	}
}

// The DELETE of an idle pool may fail after it was allowed. The sweep then retires the pool, and deletes its IPPool.
func TestRetirePool_RetiresThePoolThoughItsDeleteFails(t *testing.T) {
	s := newScene(t)
	net := s.network("net", "a", "root", 24)
	must.Get(s.RetirePool(t.Context(), tenant, s.object(net), false))(t)
	if s.sweeps(); s.known(net) || s.object(net) != nil {
		t.Error("the pool is closed for ever")
	}
}

// A pool in use is not closed, nor are the pools below it.
func TestRetirePool_LeavesPoolsInUseOpen(t *testing.T) {
	s := newScene(t)
	net := s.network("net", "a", "root", 24)
	sub := s.network("sub", "a", net.ID, 28)
	s.bind(sub, "inside")
	_, held := s.ranged("net", "b", "root", 24)
	for _, p := range []ledger.Pool{net, sub, held} {
		used, err := s.RetirePool(t.Context(), tenant, s.object(p), false)
		if now, _ := s.alloc.Pools().Get(p.ID); err != nil || !strings.Contains(used, "is in use") || now.Closed() {
			t.Errorf("RetirePool of %s = %q, %v, closed %t; want that it is in use", p.Name, used, err, now.Closed())
		}
	}
}

// A ledger that may have lost blocks does not say that a class is unused.
func TestRetireClass_FailsWhileTheLedgerMayHaveLostBlocks(t *testing.T) {
	s := newScene(t)
	s.network("net", "a", "root", 24)
	s.Ledger.Recovery = frozen{s.Ledger.Recovery}
	must.Fail(s.RetireClass(t.Context(), "net"))(t, errLost)
	must.Get(s.RetireClass(t.Context(), "other"))(t)
}

// Goes returns the end of a pool's idle time, which each use starts again. While an address cools in the pool, the time
// is zero. If idle pools stay, ok is false.
func TestGoes_TellsWhenAnIdlePoolGoes(t *testing.T) {
	s := newScene(t)
	net := s.network("net", "a", "root", 24)
	since := s.clock.Now()
	if at, ok := s.Goes(net); !ok || !at.Equal(since.Add(DefaultIdle)) {
		t.Errorf("Goes = %s, %t; want %s after now", at, ok, DefaultIdle)
	}
	s.clock.Step(time.Minute)
	claim := s.bind(net, "inside")
	if _, ok := s.Goes(net); ok {
		t.Error("a pool in use goes")
	}
	s.deletes(claim)
	must.Get(s.Settle(t.Context(), holderOf(claim)))(t)
	if at, ok := s.Goes(net); !ok || !at.Equal(s.clock.Now().Add(DefaultIdle)) {
		t.Errorf("Goes = %s, %t; want %s after the last use", at, ok, DefaultIdle)
	}
	s.cooldown = time.Hour
	s.bind(net, "cools")
	must.Do(t, s.alloc.Release(t.Context(), "uid-of-cools"))
	if at, ok := s.Goes(net); !ok || !at.IsZero() {
		t.Errorf("Goes = %s, %t while an address cools in the pool; want that it goes, and no time", at, ok)
	}
	s.Idle = 0
	if _, ok := s.Goes(net); ok {
		t.Error("a pool goes where idle pools stay")
	}
}
