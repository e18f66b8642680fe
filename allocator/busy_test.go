package allocator

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// writtenKV has others write whenever a key was read that ends so.
type writtenKV struct {
	clientv3.KV
	key   string
	write func()
}

func (kv *writtenKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := kv.KV.Get(ctx, key, opts...)
	if strings.HasSuffix(key, kv.key) {
		kv.write()
	}
	return resp, err
}

// A block in dispute is released, and one is adopted beside others, though others write the space after each look.
func TestDispute_InABusySpace(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/16")
	bound := 0
	kv := &writtenKV{l.etcd.Client().KV, "/head", func() {
		bound++
		l.bind(exactly(request("p", fmt.Sprint("busy", bound), 0), fmt.Sprintf("10.0.128.%d/32", bound)))
	}}
	busy := &fixture{Allocator: l.through(kv, l.etcd.Client().Watcher), t: t, etcd: l.etcd}
	busy.bind(exactly(request("p", "first", 0), "10.0.0.0/28"))
	busy.adopt("second", "10.0.0.0/28", ledger.Bound)
	busy.adopt("around", "10.0.0.0/27", ledger.Bound)
	busy.free("around")
	busy.free("first")
	if b, ok, err := busy.Lookup(t.Context(), "second"); err != nil || !ok || b.State != ledger.Bound {
		t.Errorf("Lookup of the last holder = %s, %t, %v; want it bound", b.State, ok, err)
	}
	if bound == 0 {
		t.Error("nobody has written the space meanwhile")
	}
	l.sameAsLedger(busy.Allocator)
}
