package allocator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
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
		if err := l.Pools().Retire(t.Context(), "child"); err != nil {
			t.Errorf("Retire: %v", err)
		}
		l.bind(request("p", "in its place", 26))
		if _, err := l.carve("p", "child", 26); err != nil {
			t.Errorf("carve: %v", err)
		}
		other.catchUp(t)
	}

	p, err := other.Pools().Carve(t.Context(), request("p", "child", 26), ledger.Pool{ID: "child", Cluster: "tenant", Name: "child"})

	if err != nil || p.CIDR != prefix("10.0.0.0/26") && p.CIDR != prefix("10.0.0.64/26") {
		t.Errorf("Carve = %v, %v; want 10.0.0.0/26 or 10.0.0.64/26", p, err)
	}
}

// A child that goes and comes again while the watch brings its end to one space after the other.
type phoenix struct {
	*fixture
	child  atomic.Pointer[ledger.PoolID] // the one that was retired elsewhere; nil: none
	carved atomic.Bool                   // the parent knew of the end before the child's space did
}

// again carves the child once more, in another place, if the watch has brought its end to the parent only.
func (f *phoenix) again(ids ...ledger.PoolID) {
	if !slices.Equal(ids, []ledger.PoolID{"p"}) {
		return
	}
	id := f.child.Swap(nil)
	if id == nil {
		return
	}
	if _, known := f.Pools().Get(*id); !known {
		return // the space of the child was first
	}
	if _, err := f.Bind(f.t.Context(), request("p", "in its place", 26)); err != nil {
		f.t.Errorf("Bind: %v", err)
	}
	if _, err := f.carve("p", *id, 26); err != nil {
		f.t.Errorf("carve: %v", err)
	}
	f.carved.Store(true)
}

// A child that is carved again has nothing of its former place, though the watch has not brought the end
// of the former one to the child's space yet.
func TestCarve_AgainBeforeItsEndIsKnown(t *testing.T) {
	f := &phoenix{}
	f.fixture = newLedger(t, func(o *Options) { o.Changed = func(_ Pools, ids ...ledger.PoolID) { f.again(ids...) } })
	other := f.open()
	f.pool("p", "10.0.0.0/24")
	for round := 0; !f.carved.Load(); round++ { // the order of the spaces is random
		id := ledger.PoolID(fmt.Sprint("child", round))
		if round == 100 {
			t.Fatal("the watch has never brought a change to the parent first")
		}
		if _, err := f.carve("p", id, 26); err != nil {
			t.Fatalf("carve: %v", err)
		}
		f.bind(request(id, "former", 28))
		f.free("former")
		f.waitIdle(t)
		f.catchUp(t)
		f.child.Store(&id)
		if err := other.Pools().Retire(t.Context(), id); err != nil {
			t.Fatalf("Retire: %v", err)
		}
		f.catchUp(t)
		if !f.carved.Load() {
			continue
		}
		p, ok := f.Pools().Get(id)
		if b := f.bind(request(id, "new", 28)); !ok || p.CIDR != prefix("10.0.0.64/26") || b.Prefix != prefix("10.0.0.64/28") {
			t.Errorf("the child is %s, %t, and gave out %s; want 10.0.0.64/28 of 10.0.0.64/26", p.CIDR, ok, b.Prefix)
		}
	}
	f.sameAsLedger(other, f.open())
}
