package allocator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// switched is a KV that can be switched from one etcd to another.
type switched struct{ kv atomic.Pointer[clientv3.KV] }

func (s *switched) to(client *clientv3.Client) { s.kv.Store(&client.KV) }
func (s *switched) now() clientv3.KV           { return *s.kv.Load() }

func (s *switched) Put(ctx context.Context, key, value string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	return s.now().Put(ctx, key, value, opts...)
}

func (s *switched) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return s.now().Get(ctx, key, opts...)
}

func (s *switched) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	return s.now().Delete(ctx, key, opts...)
}

func (s *switched) Compact(ctx context.Context, revision int64, opts ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	return s.now().Compact(ctx, revision, opts...)
}

func (s *switched) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	return s.now().Do(ctx, op)
}

func (s *switched) Txn(ctx context.Context) clientv3.Txn { return s.now().Txn(ctx) }

// rewind is an Allocator whose etcd is restored under it.
type rewind struct {
	*fixture
	copied string // the data of the etcd as they were when it was copied
	kv     *switched
}

// newRewind makes a pool p with the block "kept", and a copy of that etcd, and then the given number of blocks more.
func newRewind(t *testing.T, more int) *rewind {
	t.Helper()
	dir := t.TempDir()
	e := etcdtest.NewWith(t, embedetcd.Options{Dir: dir})
	first := &fixture{t: t, etcd: e}
	first.Allocator = first.open()
	first.pool("p", "10.0.0.0/24")
	first.bind(request("p", "kept", 28))
	must.Do(t, first.Close())
	e.Stop()
	r := &rewind{fixture: first, copied: t.TempDir(), kv: &switched{}}
	must.Do(t, os.CopyFS(r.copied, os.DirFS(dir)))
	e.Start()

	r.kv.to(e.Client())
	client := clientv3.NewCtxClient(context.Background())
	client.KV = r.kv
	a := must.Get(open(t.Context(), client, Options{MaxTxnOps: e.MaxTxnOps()}, engine.RealHooks()))(t)
	t.Cleanup(func() { _ = a.Close() })
	r.Allocator = a
	for i := range more {
		r.bind(request("p", fmt.Sprint("lost", i), 28))
	}
	return r
}

// restore replaces the etcd by its copy, after the function meanwhile has changed the copy.
func (r *rewind) restore(meanwhile func(*fixture)) *fixture {
	r.t.Helper()
	e := etcdtest.NewWith(r.t, embedetcd.Options{Dir: r.copied})
	other := &fixture{t: r.t, etcd: e}
	other.Allocator = other.open(frozenLedger)
	meanwhile(other)
	r.kv.to(e.Client())
	return other
}

// wantReplaced fails the test unless the Allocator changes nothing any more, and says why.
func (r *rewind) wantReplaced(other *fixture) {
	r.t.Helper()
	before := etcdtest.CheckLedger(r.t, other.etcd.Client(), store.DefaultPrefix)
	for name, err := range map[string]error{
		"Healthy":                 r.Healthy(),
		"Bind":                    func() error { _, err := r.Bind(r.t.Context(), request("p", "new", 28)); return err }(),
		"Release":                 r.Release(r.t.Context(), "kept"),
		"Register":                func() error { _, err := r.Pools().Register(r.t.Context(), root("q", "10.1.0.0/24")); return err }(),
		"Bind in an unknown pool": func() error { _, err := r.Bind(r.t.Context(), request("since", "new", 28)); return err }(),
	} {
		if !errors.Is(err, ledger.ErrReplaced) {
			r.t.Errorf("%s: %v; want ErrReplaced", name, err)
		}
	}
	if after := etcdtest.CheckLedger(r.t, other.etcd.Client(), store.DefaultPrefix); len(after) != len(before) {
		r.t.Errorf("the restored ledger had %v, and has %v", before, after)
	}
}

// An etcd that is restored under an Allocator is noticed by the Allocator's next transaction.
func TestReplaced_IsNoticedByTheNextTransaction(t *testing.T) {
	r := newRewind(t, 3)
	other := r.restore(func(*fixture) {})
	_, err := r.Bind(t.Context(), request("p", "next", 28))
	must.Be(t, err, ledger.ErrReplaced)
	<-r.Failed()
	r.wantReplaced(other)
}

// An etcd is restored under an Allocator, which notices that. The ledger gets another ID, which the statuses of the
// pools do not name. So the next process takes the ledger for another one, even if it seems to have all changes.
func TestReplaced_GivesTheLedgerAnotherID(t *testing.T) {
	r := newRewind(t, 3)
	former := r.Recovery().LedgerID()
	next := r.restore(func(restored *fixture) { must.Do(t, restored.Close()) })
	must.Fail(r.Bind(t.Context(), request("p", "next", 28)))(t, ledger.ErrReplaced)
	next.Allocator = next.open()
	if is := next.Recovery().LedgerID(); is == former {
		t.Errorf("the restored ledger has the ID %s, as before it was restored", is)
	}
}

// An etcd that was restored from a copy has reached a higher revision than the one that the Allocator saw last before
// the restore. The Allocator still notices that the ledger was replaced.
func TestReplaced_IsNoticedBeyondTheSeenRevision(t *testing.T) {
	t.Parallel()
	r := newRewind(t, 3)
	other := r.restore(func(other *fixture) {
		other.pool("since", "10.2.0.0/24")
		other.freeze(other.Allocator)
		for i := range 10 {
			other.adopt(fmt.Sprint("adopted", i), fmt.Sprintf("10.0.0.%d/28", 240-16*i))
		}
		other.resume(other.Allocator, 1000)
		other.bind(request("p", "heir", 28))
	})
	if b, err := r.Bind(t.Context(), request("p", "new", 28)); err == nil {
		t.Errorf("Bind = %v by what was seen of the former ledger", b)
	}
	r.wantReplaced(other)
}

// The restored etcd has come to exactly the revision that the Allocator has seen of the former one, and the head of the
// space was put there, too. The Allocator notices the change.
func TestReplaced_IsNoticedAtTheSameRevision(t *testing.T) {
	r := newRewind(t, 5)
	want := r.revision()
	other := r.restore(func(other *fixture) {
		other.freeze(other.Allocator)
		other.resume(other.Allocator, 1000)
		for i := 0; other.revision() < want; i++ {
			other.bind(request("p", fmt.Sprint("heir", i), 28))
		}
		if got := other.revision(); got != want {
			t.Fatalf("the restored ledger is at revision %d; want %d", got, want)
		}
	})
	if b, err := r.Bind(t.Context(), request("p", "new", 28)); err == nil {
		t.Errorf("Bind = %v by what was seen of the former ledger", b)
	}
	r.wantReplaced(other)
}

// revision returns the revision of the store.
func (l *fixture) revision() int64 {
	l.t.Helper()
	resp := must.Get(l.etcd.Client().Get(l.t.Context(), "any"))(l.t)
	return resp.Header.Revision
}

// Another ledger in the place of the former one is noticed, too.
func TestReplaced_IsNoticedForAnotherLedger(t *testing.T) {
	r := newRewind(t, 1)
	l := reopen(t, etcdtest.NewWith(t, embedetcd.Options{}))
	r.kv.to(l.etcd.Client())
	must.Fail(r.Bind(t.Context(), request("p", "next", 28)))(t, ledger.ErrReplaced)
	<-r.Failed()
	must.Be(t, r.Healthy(), ledger.ErrReplaced)
}

// After its etcd was away, the same ledger is not taken for another one.
func TestReplaced_IsNotReportedAfterARestart(t *testing.T) {
	t.Parallel()
	r := newRewind(t, 3)
	for range 3 {
		r.etcd.Stop()
		r.etcd.Start()
		r.kv.to(r.etcd.Client())
		for r.Healthy() != nil {
			if errors.Is(r.Healthy(), ledger.ErrReplaced) {
				t.Fatalf("Healthy = %v, want a fault that passes", r.Healthy())
			}
			runtime.Gosched()
		}
		r.bind(request("p", fmt.Sprint("after", r.revision()), 28))
	}
	r.sameAsLedger()
}
