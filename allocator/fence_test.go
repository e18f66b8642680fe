package allocator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// An Allocator that has put the fence of a workspace's root pools, as it has retired one of them, does not take it for granted that it
// knows the others: one that overlaps was registered elsewhere before.
func TestRegister_RefusesAnOverlapThatItHasNotSeenYet(t *testing.T) {
	l := newLedger(t)
	l.pool("goes", "10.0.0.0/24")
	behind, watch := l.behind()
	watch.set(true)
	l.pool("unseen", "10.1.0.0/16")
	l.must(behind.Pools().Retire(t.Context(), "goes"))
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
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	l.bind(request("p", "all", 24))
	watch, kv := &cutter{Watcher: l.etcd.Client().Watcher}, &countingKV{KV: l.etcd.Client().KV}
	behind := l.through(kv, watch)
	refused := func() error {
		_, err := behind.Bind(t.Context(), limited(0, 1024, request("p", "c", 26)))
		return err
	}
	var exhausted *ledger.ExhaustedError
	if err := refused(); !errors.As(err, &exhausted) {
		t.Fatalf("Bind = %v, want the pool exhausted", err)
	}
	watch.set(true)
	if _, err := l.etcd.Client().Delete(t.Context(), l.keys.Quota("c", "tenant")); err != nil {
		t.Fatalf("etcd Delete: %v", err)
	}
	before, done := kv.transactions.Load(), make(chan error, 1)
	go func() { done <- refused() }()
	watch.set(false)
	if err := <-done; !errors.As(err, &exhausted) {
		t.Errorf("Bind = %v, want the pool exhausted", err)
	}
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
	l.must(l.Pools().Retire(t.Context(), "goes"))
	if _, err := l.etcd.Client().Delete(t.Context(), l.keys.Roots("platform")); err != nil {
		t.Fatalf("etcd Delete: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := behind.Pools().Register(t.Context(), root("comes", "10.0.0.0/24"))
		done <- err
	}()
	watch.set(false)
	l.must(<-done)
	const enough = 8
	if n := kv.transactions.Load(); n > enough {
		t.Errorf("opening the ledger and the registration took %d transactions, want %d at most", n, enough)
	}
	l.sameAsLedger(behind)
}
