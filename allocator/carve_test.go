package allocator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
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
	l := withPool(t, "10.0.0.0/24")
	must.Get(l.carve("p", "child", 26))(t)
	kv := &between{KV: l.etcd.Client().KV}
	other := l.through(kv, l.etcd.Client().Watcher)
	kv.do = func() {
		must.Do(t, l.Pools().Retire(t.Context(), "child"))
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

// A child that goes and comes again as soon as the watch has brought its end to the parent.
type phoenix struct {
	*fixture
	child atomic.Pointer[ledger.PoolID] // the one that was retired elsewhere; nil: none
}

// again carves the child once more, in another place. The watch has brought its end to the child's space before.
func (f *phoenix) again(ids ...ledger.PoolID) {
	if !slices.Equal(ids, []ledger.PoolID{"p"}) {
		return
	}
	id := f.child.Swap(nil)
	if id == nil {
		return
	}
	if _, known := f.Pools().Get(*id); known {
		f.t.Errorf("the parent has lost the block of pool %s, which memory still has", *id)
	}
	if _, err := f.Bind(f.t.Context(), request("p", "in its place", 26)); err != nil {
		f.t.Errorf("Bind: %v", err)
	}
	if _, err := f.carve("p", *id, 26); err != nil {
		f.t.Errorf("carve: %v", err)
	}
}

// A child that is carved again, while the watch brings the end of the former one, has nothing of its former place.
func TestCarve_AgainWhileItsEndComes(t *testing.T) {
	f := &phoenix{}
	f.fixture = newLedger(t, func(o *Options) { o.Changed = func(_ Pools, ids ...ledger.PoolID) { f.again(ids...) } })
	other := f.open()
	f.pool("p", "10.0.0.0/24")
	for round := range 4 { // the order of a map is random
		id := ledger.PoolID(fmt.Sprint("child", round))
		must.Get(f.carve("p", id, 26))(t)
		f.bind(request(id, "former", 28))
		f.free("former")
		f.waitIdle(t)
		f.catchUp(t)
		f.child.Store(&id)
		must.Do(t, other.Pools().Retire(t.Context(), id))
		f.catchUp(t)
		p, ok := f.Pools().Get(id)
		if b := f.bind(request(id, "new", 28)); !ok || p.CIDR != prefix("10.0.0.64/26") || b.Prefix != prefix("10.0.0.64/28") {
			t.Errorf("the child is %s, %t, and gave out %s; want 10.0.0.64/28 of 10.0.0.64/26", p.CIDR, ok, b.Prefix)
		}
		f.free("new")
		f.free("in its place")
		must.Do(t, f.Pools().Retire(t.Context(), id))
	}
	f.sameAsLedger(other, f.open())
}

func (l *fixture) carve(parent, child ledger.PoolID, length int) (ledger.Pool, error) {
	req := request(parent, string(child), length)
	req.Holder.Namespace = ""
	return l.Pools().Carve(l.t.Context(), req, ledger.Pool{ID: child, Cluster: "tenant", Name: string(child)})
}

func TestCarve(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	other := l.open()
	child, err := l.carve("p", "child", 25)
	if err != nil || child.CIDR != prefix("10.0.0.0/25") || child.Parent != "p" {
		t.Fatalf("carve = %v, %v; want 10.0.0.0/25", child, err)
	}
	again, err := (&fixture{Allocator: other, t: t}).carve("p", "child", 25)
	if err != nil || fmt.Sprint(again) != fmt.Sprint(child) {
		t.Errorf("carve = %v, %v; want the same child", again, err)
	}
	grandchild, err := l.carve("child", "grandchild", 26)
	if err != nil || grandchild.CIDR != prefix("10.0.0.0/26") {
		t.Fatalf("carve = %v, %v; want 10.0.0.0/26", grandchild, err)
	}
	b, err := other.Bind(t.Context(), request("grandchild", "c", 27))
	if err != nil || b.Prefix != prefix("10.0.0.0/27") || b.Space != "grandchild" {
		t.Errorf("Bind = %v, %v; want 10.0.0.0/27", b, err)
	}
	l.sameAsLedger(other, l.open())

	must.Be(t, l.Pools().Retire(t.Context(), "child"), ledger.ErrPoolInUse)
	must.Do(t, l.Release(t.Context(), "c"))
	for _, id := range []ledger.PoolID{"grandchild", "child", "p"} {
		must.Do(t, other.Pools().Retire(t.Context(), id))
	}
	l.holds(0, other)
}

func TestCarve_Refusals(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.pool("taken", "10.1.0.0/24")
	l.bind(request("p", "claim", 25))
	for name, tc := range map[string]struct {
		parent, child ledger.PoolID
		want          error
	}{
		"an ID that has a block": {"p", "claim", ledger.ErrPoolMismatch},
		"an ID that is a pool":   {"p", "taken", ledger.ErrPoolMismatch},
		"no parent":              {"q", "child", ledger.ErrUnknownPool},
	} {
		if _, err := l.carve(tc.parent, tc.child, 26); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
	failsAs[*ledger.ExhaustedError](l.carve("p", "child", 24))(t)
	l.sameAsLedger()
}

// While a child is carved and retired by one allocator, others bind in it. No
// block is ever in a child that is gone, and the parent gets its room back.
func TestRetire_RacesWithBind(t *testing.T) {
	l := newLedger(t)
	allocators := []*Allocator{l.Allocator, l.open(), l.open()}
	l.pool("p", "10.0.0.0/24")
	for round := range 20 {
		child := ledger.PoolID(fmt.Sprint("child", round))
		must.Get(l.carve("p", child, 25))(t)
		var wg sync.WaitGroup
		for i, a := range allocators {
			wg.Go(func() {
				claim := fmt.Sprint("c", round, i)
				_, err := a.Bind(t.Context(), request(child, claim, 28))
				if err != nil && !errors.Is(err, ledger.ErrUnknownPool) {
					t.Errorf("Bind: %v", err)
				}
			})
			wg.Go(func() {
				if err := a.Pools().Retire(t.Context(), child); err != nil && !errors.Is(err, ledger.ErrPoolInUse) {
					t.Errorf("Retire: %v", err)
				}
			})
		}
		wg.Wait()
		l.clear(child, allocators)
	}
	l.holds(0, allocators[1:]...)
}

// clear checks the ledger, frees what a pool holds, and retires it.
func (l *fixture) clear(id ledger.PoolID, allocators []*Allocator) {
	l.t.Helper()
	for _, b := range l.sameAsLedger(allocators[1:]...) {
		if b.Pool != string(id) {
			continue
		}
		must.Do(l.t, allocators[1].Release(context.Background(), ledger.ClaimID(b.Claims[0])))
	}
	must.Do(l.t, allocators[2].Pools().Retire(context.Background(), id))
}

// The addresses of a child's block are given out by the child: the block is not freed before the child is retired.
func TestRelease_TheBlockOfAChild(t *testing.T) {
	l, other := both(t, "10.0.0.0/24")
	must.Get(l.carve("p", "child", 25))(t)
	derived := l.provision("p", 25, ofNetwork("net", "a"))
	for _, id := range []ledger.ClaimID{"child", ledger.ClaimID(derived.ID)} {
		if err := other.Release(t.Context(), id); !errors.Is(err, ledger.ErrPoolInUse) {
			t.Errorf("Release of the block of %s = %v, want %v", id, err, ledger.ErrPoolInUse)
		}
	}
	l.wantBlocks("10.0.0.0/25 [child] bound", fmt.Sprintf("10.0.0.128/25 [%s] bound", derived.ID))
	must.Do(t, other.Pools().Retire(t.Context(), "child"))
	must.Do(t, other.Pools().Retire(t.Context(), derived.ID))
	l.holds(0, other.Allocator)
}
