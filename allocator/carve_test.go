package allocator

import (
	"context"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// between runs something once, after the first read of the child's claim.
type between struct {
	clientv3.KV
	once sync.Once
	do   func()
}

func (b *between) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := b.KV.Get(ctx, key, opts...)
	if strings.Contains(key, "/claims/child") {
		b.once.Do(b.do)
	}
	return resp, err
}

// A child that is retired and carved elsewhere while somebody looks for it is
// found where it is then or was before; it is no pool of another kind.
func TestCarve_MovesMeanwhile(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	if _, err := l.carve("p", "child", 26); err != nil {
		t.Fatalf("carve: %v", err)
	}
	kv := &between{KV: l.etcd.Client().KV}
	other := l.through(kv, l.etcd.Client().Watcher)
	kv.do = func() {
		if err := l.Retire(t.Context(), "child"); err != nil {
			t.Errorf("Retire: %v", err)
		}
		l.bind(request("p", "in its place", 26))
		if _, err := l.carve("p", "child", 26); err != nil {
			t.Errorf("carve: %v", err)
		}
		other.catchUp(t)
	}

	p, err := other.Carve(t.Context(), request("p", "child", 26), Pool{ID: "child", Cluster: "tenant", Name: "child"})

	if err != nil || p.CIDR != prefix("10.0.0.0/26") && p.CIDR != prefix("10.0.0.64/26") {
		t.Errorf("Carve = %v, %v; want 10.0.0.0/26 or 10.0.0.64/26", p, err)
	}
}
