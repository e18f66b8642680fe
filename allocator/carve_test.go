package allocator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// between calls a function once, after the first read of the child's claim.
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

// While Carve looks for a child, the child is retired and carved elsewhere. Carve finds it at its old or its new place,
// and does not take it for another kind of block.
func TestCarve_FindsAChildThatMovesMeanwhile(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	must.Get(l.carve("p", "child", 26))(t)
	kv := &between{KV: l.etcd.Client().KV}
	l.Allocator = l.through(kv)
	kv.do = func() {
		must.Do(t, l.Pools().Retire(t.Context(), "child"))
		l.bind(request("p", "in its place", 26))
		if _, err := l.carve("p", "child", 26); err != nil {
			t.Errorf("carve: %v", err)
		}
	}

	p, err := l.Pools().Carve(t.Context(), request("p", "child", 26), ledger.Pool{ID: "child", Cluster: "tenant", Name: "child"})

	if err != nil || p.CIDR != prefix("10.0.0.0/26") && p.CIDR != prefix("10.0.0.64/26") {
		t.Errorf("Carve = %v, %v; want 10.0.0.0/26 or 10.0.0.64/26", p, err)
	}
}

func (l *fixture) carve(parent, child ledger.PoolID, length int) (ledger.Pool, error) {
	req := request(parent, string(child), length)
	req.Holder.Namespace = ""
	return l.Pools().Carve(l.t.Context(), req, ledger.Pool{ID: child, Cluster: "tenant", Name: string(child)})
}

func TestCarve_BindsAndRegistersTheChild(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	child, err := l.carve("p", "child", 25)
	if err != nil || child.CIDR != prefix("10.0.0.0/25") || child.Parent != "p" {
		t.Fatalf("carve = %v, %v; want 10.0.0.0/25", child, err)
	}
	again, err := l.carve("p", "child", 25)
	if err != nil || fmt.Sprint(again) != fmt.Sprint(child) {
		t.Errorf("carve = %v, %v; want the same child", again, err)
	}
	grandchild, err := l.carve("child", "grandchild", 26)
	if err != nil || grandchild.CIDR != prefix("10.0.0.0/26") {
		t.Fatalf("carve = %v, %v; want 10.0.0.0/26", grandchild, err)
	}
	b, err := l.Bind(t.Context(), request("grandchild", "c", 27))
	if err != nil || b.Prefix != prefix("10.0.0.0/27") || b.Space != "grandchild" {
		t.Errorf("Bind = %v, %v; want 10.0.0.0/27", b, err)
	}
	l.sameAsLedger()

	must.Be(t, l.Pools().Retire(t.Context(), "child"), ledger.ErrPoolInUse)
	must.Do(t, l.Release(t.Context(), "c"))
	for _, id := range []ledger.PoolID{"grandchild", "child", "p"} {
		must.Do(t, l.Pools().Retire(t.Context(), id))
	}
	l.holds(0)
}

func TestCarve_SaysWhyItRefuses(t *testing.T) {
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

// While a child is carved and retired, claims bind blocks in it. No block is ever in a child that is gone, and the
// parent gets its room back.
func TestRetire_LeavesNoBlockInAChildThatIsGone(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	for round := range 20 {
		child := ledger.PoolID(fmt.Sprint("child", round))
		must.Get(l.carve("p", child, 25))(t)
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				claim := fmt.Sprint("c", round, i)
				_, err := l.Bind(t.Context(), request(child, claim, 28))
				if err != nil && !errors.Is(err, ledger.ErrUnknownPool) {
					t.Errorf("Bind: %v", err)
				}
			})
			wg.Go(func() {
				if err := l.Pools().Retire(t.Context(), child); err != nil && !errors.Is(err, ledger.ErrPoolInUse) {
					t.Errorf("Retire: %v", err)
				}
			})
		}
		wg.Wait()
		l.clear(child)
	}
	l.holds(0)
}

// clear checks the ledger, frees the blocks of a pool, and retires it.
func (l *fixture) clear(id ledger.PoolID) {
	l.t.Helper()
	for _, b := range l.sameAsLedger() {
		if b.Pool != string(id) {
			continue
		}
		must.Do(l.t, l.Release(context.Background(), ledger.ClaimID(b.Claim)))
	}
	must.Do(l.t, l.Pools().Retire(context.Background(), id))
}

// The block of a child pool is not freed before the child is retired, because the child gives its addresses out.
func TestRelease_RefusesTheBlockOfAChild(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	must.Get(l.carve("p", "child", 25))(t)
	derived := l.provision("p", 25, ofNetwork("net", "a"))
	for _, id := range []ledger.ClaimID{"child", ledger.ClaimID(derived.ID)} {
		if err := l.Release(t.Context(), id); !errors.Is(err, ledger.ErrPoolInUse) {
			t.Errorf("Release of the block of %s = %v, want %v", id, err, ledger.ErrPoolInUse)
		}
	}
	l.wantBlocks("10.0.0.0/25 child bound", fmt.Sprintf("10.0.0.128/25 %s bound", derived.ID))
	must.Do(t, l.Pools().Retire(t.Context(), "child"))
	must.Do(t, l.Pools().Retire(t.Context(), derived.ID))
	l.holds(0)
}
