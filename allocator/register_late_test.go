package allocator

import (
	"context"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keptKV keeps back the first transaction that puts a key, and reports that it did not end in time.
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

// A transaction that registers a pool was given up. It reaches etcd after the pool was registered by the next attempt,
// and retired. It does not bring the pool back.
func TestRegister_LateTransactionBringsNoPoolBack(t *testing.T) {
	l := newLedger(t)
	kv := &keptKV{KV: l.etcd.Client().KV, key: "/pools/p"}
	a := l.through(kv)
	must.Get(a.Pools().Register(t.Context(), root("p", "10.0.0.0/24")))(t)
	must.Do(t, a.Pools().Retire(t.Context(), "p"))
	if resp, err := kv.kept.Commit(); err != nil || resp.Succeeded {
		t.Errorf("the transaction that was given up: %v, %v; want that it fails", resp, err)
	}
	l.sameAsLedger()
}
