package allocator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
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
		must.Do(t, l.Pools().Retire(t.Context(), id))
		want(l.Allocator, id, true)
		want(other, id, true)
	}

	l.pool("p", "10.0.0.0/24")
	must.Get(l.carve("p", "child", 26))(t)
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
	must.Get(l.etcd.Client().Delete(t.Context(), string(l.keys)+"/", clientv3.WithPrefix()))(t)
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
	must.Do(t, allocators[1].Release(t.Context(), "c"))
	want("drained")
	for i, a := range allocators {
		id := ledger.PoolID(fmt.Sprint("next-", i))
		if _, err := a.Pools().Register(t.Context(), root(id, "10.0.0.0/24")); err != nil {
			t.Errorf("allocator %d: Register(%s) = %v, though it told that the pool in its place has left", i, id, err)
		}
		must.Do(t, a.Pools().Retire(t.Context(), id))
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
		must.Do(t, l.Pools().Drain(t.Context(), id))
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

// An Allocator that has put the fence of a workspace's root pools, as it has retired one of them, does not take it for granted that it
// knows the others: one that overlaps was registered elsewhere before.
func TestRegister_RefusesAnOverlapThatItHasNotSeenYet(t *testing.T) {
	l := newLedger(t)
	l.pool("goes", "10.0.0.0/24")
	behind, watch := l.behind()
	watch.set(true)
	l.pool("unseen", "10.1.0.0/16")
	must.Do(t, behind.Pools().Retire(t.Context(), "goes"))
	done := make(chan error, 1)
	go func() {
		_, err := behind.Pools().Register(t.Context(), root("overlaps", "10.1.2.0/24"))
		done <- err
	}()
	watch.set(false)
	var overlap *ledger.OverlapError
	if err := <-done; !errors.As(err, &overlap) || overlap.With.ID != "unseen" {
		t.Errorf("Register = %v, want that it overlaps the pool that was registered elsewhere", err)
	}
	l.sameAsLedger(behind.Allocator)
}

// countingKV counts transactions.
type countingKV struct {
	clientv3.KV
	transactions atomic.Int64
}

func (kv *countingKV) Txn(ctx context.Context) clientv3.Txn {
	kv.transactions.Add(1)
	return kv.KV.Txn(ctx)
}

// The fence of a limit was deleted elsewhere, and this Allocator does not know yet. A refusal that it compares is not tried again and
// again: the fence is made.
func TestRefusal_MakesAFenceThatHasGone(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.bind(request("p", "all", 24))
	watch, kv := &cutter{Watcher: l.etcd.Client().Watcher}, &countingKV{KV: l.etcd.Client().KV}
	behind := l.through(kv, watch)
	refused := limited(0, 1024, request("p", "c", 26))
	failsAs[*ledger.ExhaustedError](behind.Bind(t.Context(), refused))(t)
	watch.set(true)
	must.Get(l.etcd.Client().Delete(t.Context(), l.keys.Quota("c", "tenant")))(t)
	before := kv.transactions.Load()
	atOnce(func() { watch.set(false) }, func() {
		if _, err := behind.Bind(t.Context(), refused); !exhausted(err) {
			t.Errorf("Bind = %v, want the pool exhausted", err)
		}
	})
	const enough = 8
	if n := kv.transactions.Load() - before; n > enough {
		t.Errorf("it took %d transactions, want %d at most", n, enough)
	}
}

// The last root pool of a workspace was retired elsewhere, and its fence was deleted. A registration waits until memory has that, and is
// not tried again and again.
func TestRegister_WaitsForAWatchThatLags(t *testing.T) {
	l := newLedger(t)
	l.pool("goes", "10.0.0.0/24")
	watch, kv := &cutter{Watcher: l.etcd.Client().Watcher}, &countingKV{KV: l.etcd.Client().KV}
	behind := l.through(kv, watch)
	watch.set(true)
	must.Do(t, l.Pools().Retire(t.Context(), "goes"))
	must.Get(l.etcd.Client().Delete(t.Context(), l.keys.Roots("platform")))(t)
	atOnce(func() { watch.set(false) }, func() {
		if _, err := behind.Pools().Register(t.Context(), root("comes", "10.0.0.0/24")); err != nil {
			t.Errorf("Register: %v", err)
		}
	})
	const enough = 8
	if n := kv.transactions.Load(); n > enough {
		t.Errorf("opening the ledger and the registration took %d transactions, want %d at most", n, enough)
	}
	l.sameAsLedger(behind)
}

// A pool that drains is retired by another Allocator, too, and made again. The first retirement leaves the new one.
func TestRetire_LeavesAPoolThatIsMadeAgain(t *testing.T) {
	i := newIcebox(t)
	other := &fixture{t: t, etcd: i.etcd, Allocator: i.follower()}
	wanted := ofNetwork("net", "a")
	net := i.provision("p", 28, wanted)
	i.cooldown = time.Hour
	s := i.space(net.ID, "b")
	i.bind(request(s.ID, "former", 32))
	i.free("former")
	turn := make(chan struct{})
	other.swap(func(h *engine.Hooks) {
		h.BeforeCommit = func(ledger.SpaceID) error {
			<-turn // it sees the pool drain, too, and would retire it before
			return nil
		}
	})
	again := sync.OnceFunc(func() {
		close(turn)
		other.catchUp(t)
		if err := other.Pools().Retire(t.Context(), net.ID); err != nil {
			t.Error(err)
		}
		other.provision("p", 28, wanted)
	})
	i.swap(func(h *engine.Hooks) {
		h.BeforeCommit = func(ledger.SpaceID) error {
			if _, _, there, err := i.Pools().Read(t.Context(), s.ID); err == nil && !there {
				again()
			}
			return nil
		}
	})
	must.Do(t, i.Pools().Retire(t.Context(), net.ID))
	again() // it has begun, and may not have ended
	if _, _, there, err := i.Pools().Read(t.Context(), net.ID); err != nil || !there {
		t.Errorf("the pool that was made again: %t, %v; want that it is there", there, err)
	}
	i.sameAsLedger(other.Allocator)
}
