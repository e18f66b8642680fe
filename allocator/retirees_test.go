package allocator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// Retired is true for a pool that the Allocator has retired, as soon as the ledger lacks it, and false for any other.
func TestRetired_TellsARetiredPoolFromALostOne(t *testing.T) {
	l := newLedger(t)
	want := func(id ledger.PoolID, want bool) {
		t.Helper()
		if retired, err := l.Pools().Retired(t.Context(), id); err != nil || retired != want {
			t.Errorf("Retired(%s) = %t, %v; want %t", id, retired, err, want)
		}
	}
	l.pool("p", "10.0.0.0/24")
	must.Get(l.carve("p", "child", 26))(t)
	want("child", false)
	for _, id := range []ledger.PoolID{"child", "p"} {
		must.Do(t, l.Pools().Retire(t.Context(), id))
		want(id, true)
	}
	want("never", false)
	l.pool("p", "10.0.0.0/24")
	want("p", false)
	must.Do(t, l.Pools().Retire(t.Context(), "p"))
	l.again()
	want("p", false) // gone before it was opened: nobody saw how
}

// Options.Retired is called for each pool that leaves the ledger, whatever the reason. Then another pool can be
// registered in its place.
func TestRetired_IsCalledWhenAPoolHasLeft(t *testing.T) {
	told := make(chan ledger.PoolID, 8)
	l := newLedger(t, func(o *Options) { o.Retired = func(p ledger.Pool) { told <- p.ID } })
	want := func(id ledger.PoolID) {
		t.Helper()
		if got := <-told; got != id {
			t.Errorf("it tells that %s has left, want %s", got, id)
		}
	}
	l.pool("p", "10.0.0.0/24")
	must.Get(l.carve("p", "child", 26))(t)
	for _, id := range []ledger.PoolID{"child", "p"} {
		must.Do(t, l.Pools().Retire(t.Context(), id))
		want(id)
	}

	l.pool("drained", "10.0.0.0/24")
	l.bind(request("drained", "c", 26))
	must.Do(t, l.Pools().Drain(t.Context(), "drained"))
	_, err := l.Pools().Register(t.Context(), root("early", "10.0.0.0/24"))
	_ = wantA[*ledger.OverlapError](t, err) // it drains, and has its CIDR still
	l.free("c")
	want("drained")
	if _, err := l.Pools().Register(t.Context(), root("next", "10.0.0.0/24")); err != nil {
		t.Errorf("Register = %v, though it told that the pool in its place has left", err)
	}
}

// Pools that come and are drained leave nothing behind, in etcd or in memory.
func TestDrain_LeavesNothingBehind(t *testing.T) {
	l := newLedger(t)
	l.pool("stays", "10.1.0.0/24")
	before := l.keysWith("")
	for i := range 200 {
		id := ledger.PoolID(fmt.Sprint("loop-", i))
		l.pool(id, "10.0.0.0/24")
		must.Do(t, l.Pools().Drain(t.Context(), id))
		l.waitGone(id)
	}
	if after := l.keysWith(""); !slices.Equal(after, before) {
		t.Errorf("the keys are %v after 200 pools have come and gone, want %v as before", after, before)
	}
	spaces := len(l.engine.Spaces.All())
	pools, roots := len(l.table.IDs()), len(l.table.RootsIn("platform"))
	if pools != 1 || spaces != 1 || roots != 1 {
		t.Errorf("memory has %d pools, %d spaces and %d root pools of the workspace, want 1 of each", pools, spaces, roots)
	}
}

// A pool that drains is retired by another caller, too, and made again, before the first retirement is done. The first
// retirement leaves the new pool, whether it is open or drains.
func TestRetire_LeavesAPoolThatIsMadeAgain(t *testing.T) {
	for _, drains := range []bool{false, true} {
		t.Run(fmt.Sprint("drains=", drains), func(t *testing.T) {
			i := newIcebox(t)
			wanted := ofNetwork("net", "a")
			net := i.provision("p", 28, wanted)
			i.cooldown = time.Hour
			s := i.space(net.ID, "b")
			i.bind(request(s.ID, "former", 32))
			i.free("former")
			first := retirement{Allocator: i.Allocator, id: net.ID}
			must.Do(t, first.endCooldowns(t.Context())) // from here on, it is the retirement of this pool only

			must.Do(t, i.Pools().Retire(t.Context(), net.ID))
			i.clock.advance(time.Second)
			i.provision("p", 28, wanted)
			if drains {
				i.bind(request(net.ID, "inside", 32)) // it drains, and is not gone at once
				must.Do(t, i.Pools().Drain(t.Context(), net.ID))
			}
			if err := known(first.child(t.Context())); err != nil {
				t.Errorf("the first retirement = %v; want that its pool is gone", err)
			}
			if _, _, there, err := i.Pools().Read(t.Context(), net.ID); err != nil || !there {
				t.Errorf("the pool that was made again: %t, %v; want that it is there", there, err)
			}
			i.sameAsLedger()
		})
	}
}
