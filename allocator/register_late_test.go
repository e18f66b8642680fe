package allocator

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keptKV keeps back the first transaction that puts a key, and says that it did not end in time.
type keptKV struct {
	clientv3.KV
	key  string
	kept clientv3.Txn
}

func (kv *keptKV) Txn(ctx context.Context) clientv3.Txn {
	return &keptTxn{Txn: kv.KV.Txn(context.WithoutCancel(ctx)), kv: kv}
}

type keptTxn struct {
	clientv3.Txn
	kv   *keptKV
	puts bool
}

func (t *keptTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { t.Txn = t.Txn.If(cs...); return t }
func (t *keptTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }
func (t *keptTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	for _, op := range ops {
		t.puts = t.puts || op.IsPut() && strings.HasSuffix(string(op.KeyBytes()), t.kv.key)
	}
	t.Txn = t.Txn.Then(ops...)
	return t
}

func (t *keptTxn) Commit() (*clientv3.TxnResponse, error) {
	if !t.puts || t.kv.kept != nil {
		return t.Txn.Commit()
	}
	t.kv.kept = t.Txn
	return nil, context.DeadlineExceeded
}

// retireAndPrune retires the one root pool of its workspace, and deletes the fence that is left.
func (l *fixture) retireAndPrune(id ledger.PoolID) {
	l.t.Helper()
	must.Do(l.t, l.Pools().Retire(l.t.Context(), id))
	l.catchUp(l.t)
	engine.Guard{Engine: l.engine}.Prune(l.t.Context())
	if left := l.keysWith("/workspaces/"); len(left) > 0 {
		l.t.Fatalf("the ledger has %v, want no fence", left)
	}
}

// A transaction that was given up comes when the pool that it registers was registered by another one, and retired, and the fence of the
// workspace is gone with that. It does not bring the pool back.
func TestRegister_GivenUpBringsNoPoolBack(t *testing.T) {
	l := newLedger(t)
	kv := &keptKV{KV: l.etcd.Client().KV, key: "/pools/p"}
	a := l.through(kv, l.etcd.Client().Watcher)
	must.Get(a.Pools().Register(t.Context(), root("p", "10.0.0.0/24")))(t)
	l.catchUp(t)
	l.retireAndPrune("p")
	if resp, err := kv.kept.Commit(); err != nil || resp.Succeeded {
		t.Errorf("the transaction that was given up: %v, %v; want that it fails", resp, err)
	}
	l.sameAsLedger(a)
}

// The answer to a Register was lost. The pool was retired since, and the fence of its workspace is gone. It is not registered again.
func TestRegister_LostAnswerIsNotRepeated(t *testing.T) {
	l := newLedger(t)
	a := l.another()
	var once sync.Once
	a.swap(func(h *engine.Hooks) {
		h.AfterCommit = func(ledger.SpaceID) (lost error) {
			once.Do(func() {
				l.catchUp(t)
				l.retireAndPrune("p")
				lost = errLost
			})
			return lost
		}
	})
	must.Get(a.Pools().Register(t.Context(), root("p", "10.0.0.0/24")))(t)
	if _, _, ok, err := l.Pools().Read(t.Context(), "p"); ok || err != nil {
		t.Errorf("the retired pool is in the ledger: %t, %v", ok, err)
	}
	l.sameAsLedger(a.Allocator)
}

// retiredUnseen registers a pool with an Allocator whose watch is cut off. The transaction is committed, and before the Allocator
// has its answer, or err in its place, another one retires the pool, and the ledger is read again.
func (l *fixture) retiredUnseen(err error) (behind *fixture, answer error) {
	l.t.Helper()
	l.pool("q", "10.1.0.0/24")
	behind, watch := l.behind()
	var once sync.Once
	behind.swap(func(h *engine.Hooks) {
		h.AfterCommit = func(ledger.SpaceID) (lost error) {
			once.Do(func() {
				l.missed(behind, watch, func() {
					must.Do(l.t, l.Pools().Retire(l.t.Context(), "p"))
					l.bind(request("q", "c", 28))
				})
				lost = err
			})
			return lost
		}
	})
	watch.set(true)
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*behind.store.Timeout)
	defer cancel()
	_, answer = behind.Pools().Register(ctx, root("p", "10.0.0.0/24"))
	return behind, answer
}

// A pool was registered, and retired elsewhere, before this Allocator has the answer of its transaction. The ledger was read again
// meanwhile: memory does not bring the pool back.
func TestReread_APoolThatWasRetiredBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	behind, err := l.retiredUnseen(nil)
	must.Do(t, err)
	if p, ok := behind.Pools().Get("p"); ok {
		t.Errorf("memory has pool %+v, want none: it was retired", p)
	}
	must.Get(behind.Pools().Register(t.Context(), root("over", "10.0.0.0/16")))(t)
	l.sameAsLedger(behind.Allocator)
}

// The answer was lost, too. Nobody can tell any more whether the pool was registered, and it is not registered a second time.
func TestReread_APoolThatWasRetiredAndItsAnswerLost(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	behind, err := l.retiredUnseen(errLost)
	must.Be(t, err, ledger.ErrUnavailable)
	if _, _, ok, err := l.Pools().Read(t.Context(), "p"); ok || err != nil {
		t.Errorf("the retired pool is in the ledger: %t, %v", ok, err)
	}
	l.sameAsLedger(behind.Allocator)
}
