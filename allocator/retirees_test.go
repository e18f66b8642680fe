package allocator

import (
	"fmt"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// A pool that another allocator has retired is told from one that was lost, as soon as
// the ledger does not know it.
func TestRetired(t *testing.T) {
	l := newLedger(t)
	other := l.open()
	want := func(a *Allocator, id ledger.PoolID, want bool) {
		t.Helper()
		if retired, err := a.Pools().Retired(t.Context(), id); err != nil || retired != want {
			t.Errorf("Retired(%s) = %t, %v; want %t", id, retired, err, want)
		}
	}
	retire := func(id ledger.PoolID) {
		t.Helper()
		if err := l.Pools().Retire(t.Context(), id); err != nil {
			t.Fatalf("Retire: %v", err)
		}
		want(l.Allocator, id, true)
		want(other, id, true)
	}

	l.pool("p", "10.0.0.0/24")
	if _, err := l.carve("p", "child", 26); err != nil {
		t.Fatalf("carve: %v", err)
	}
	want(other, "child", false)
	retire("child")
	retire("p")
	if _, err := l.etcd.Client().Put(t.Context(), "/elsewhere", ""); err != nil { // no watch shows it
		t.Fatalf("etcd Put: %v", err)
	}
	want(other, "never", false)
	want(l.open(), "p", false) // gone before it was opened: nobody saw how

	l.pool("p", "10.0.0.0/24")
	l.pool("q", "10.1.0.0/24")
	want(other, "p", false)
	if _, err := l.etcd.Client().Delete(t.Context(), string(l.keys)+"/", clientv3.WithPrefix()); err != nil {
		t.Fatalf("etcd Delete: %v", err)
	}
	for _, a := range []*Allocator{l.Allocator, other} {
		want(a, "p", false)
		want(a, "q", false)
	}
}

// Every allocator tells which pools leave the ledger, whoever retires them and however, when it
// would register another one in their place.
func TestRetired_IsTold(t *testing.T) {
	var allocators [2]*Allocator
	var told [2]chan ledger.PoolID
	left := [2]map[ledger.PoolID]bool{{}, {}}
	l := &fixture{t: t, etcd: etcdtest.New(t)}
	for i := range allocators {
		told[i] = make(chan ledger.PoolID, 8)
		allocators[i] = l.open(func(o *Options) {
			o.Retired = func(p ledger.Pool) { told[i] <- p.ID }
		})
	}
	l.Allocator = allocators[0]
	want := func(id ledger.PoolID) {
		t.Helper()
		for i := range told {
			got := <-told[i]
			for left[i][got] { // once more, by the watch
				got = <-told[i]
			}
			if got != id {
				t.Errorf("allocator %d tells that %s has left, want %s", i, got, id)
			}
			left[i][got] = true
		}
	}
	l.pool("p", "10.0.0.0/24")
	if _, err := l.carve("p", "child", 26); err != nil {
		t.Fatalf("carve: %v", err)
	}
	for _, id := range []ledger.PoolID{"child", "p"} {
		if err := l.Pools().Retire(t.Context(), id); err != nil {
			t.Fatalf("Retire: %v", err)
		}
		want(id)
	}

	l.pool("drained", "10.0.0.0/24")
	l.bind(request("drained", "c", 26))
	if err := l.Pools().Drain(t.Context(), "drained"); err != nil {
		t.Fatalf("Drain: %v", err)
	}
	if err := allocators[1].Release(t.Context(), "c"); err != nil {
		t.Fatalf("Release: %v", err)
	}
	want("drained")
	for i, a := range allocators {
		id := ledger.PoolID(fmt.Sprint("next-", i))
		if _, err := a.Pools().Register(t.Context(), root(id, "10.0.0.0/24")); err != nil {
			t.Errorf("allocator %d: Register(%s) = %v, though it told that the pool in its place has left", i, id, err)
		}
		if err := a.Pools().Retire(t.Context(), id); err != nil {
			t.Fatalf("Retire: %v", err)
		}
		want(id)
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
		if err := l.Pools().Drain(t.Context(), id); err != nil {
			t.Fatalf("Drain: %v", err)
		}
		l.waitGone(id)
		l.catchUp(t)
	}
	if after := l.keysWith(""); !slices.Equal(after, before) {
		t.Errorf("the keys are %v after 200 pools have come and gone, want %v as before", after, before)
	}
	spaces := len(l.engine.Spaces.All())
	pools, roots := len(l.table.IDs()), len(l.table.RootsIn("platform").Pools)
	if pools != 1 || spaces != 1 || roots != 1 {
		t.Errorf("memory has %d pools, %d spaces and %d root pools of the workspace, want 1 of each", pools, spaces, roots)
	}
}
