package allocator

import (
	"context"
	"fmt"
	"math/big"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// first has something done before the first transaction only.
func first(do func()) func(ledger.SpaceID) error {
	var done atomic.Bool
	return func(ledger.SpaceID) error {
		if !done.Swap(true) {
			do()
		}
		return nil
	}
}

// keys are those below the ledger's prefix that contain a word.
func (l *fixture) keysWith(word string) []string {
	l.t.Helper()
	resp := must.Get(l.etcd.Client().Get(l.t.Context(), store.DefaultPrefix, clientv3.WithPrefix(), clientv3.WithKeysOnly()))(l.t)
	var found []string
	for _, kv := range resp.Kvs {
		if strings.Contains(string(kv.Key), word) {
			found = append(found, string(kv.Key))
		}
	}
	return found
}

// A child pool is carved under a class limit while another writer binds by that class.
func TestCarve_WhileTheQuotaMoves(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	l.pool("q", "10.1.0.0/16")
	other := l.another()
	under := func(pool ledger.PoolID, claim string, length int) ledger.Request {
		r := request(pool, claim, length)
		r.Class, r.Limits.Class = "class", big.NewInt(1<<16)
		return r
	}
	l.bind(under("p", "first", 28)) // makes the fence of the quota
	l.swap(func(h *engine.Hooks) { h.BeforeCommit = first(func() { other.bind(under("q", "meanwhile", 28)) }) })
	must.Get(l.Pools().Carve(t.Context(), under("p", "child", 24), ledger.Pool{ID: "child", Cluster: "tenant", Name: "child"}))(t)
	l.sameAsLedger(other.Allocator)
}

// A child that is carved here is retired elsewhere before the carver gets its answer.
func TestCarve_RetiredBeforeTheAnswer(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	other := l.open()
	l.swap(func(h *engine.Hooks) {
		h.AfterCommit = first(func() {
			other.catchUp(t)
			if err := other.Pools().Retire(t.Context(), "child"); err != nil {
				t.Errorf("Retire: %v", err)
			}
			l.catchUp(t)
		})
	})
	must.Get(l.carve("p", "child", 24))(t)
	if p, ok := l.Pools().Get("child"); ok {
		t.Errorf("Pool(child) = %v; want none, as it was retired", p)
	}
	l.sameAsLedger(other)
}

// A pool that has drained is retired late, when another one is there by its ID: that one stays,
// and so does what cools in it.
func TestRetireDrained_ByAnID(t *testing.T) {
	for name, parent := range map[string]ledger.PoolID{"a root pool": "", "a child": "p"} {
		i := newIcebox(t)
		begin := func() {
			if parent == "" {
				i.pool("again", "192.168.0.0/24")
			} else if _, err := i.carve(parent, "again", 26); err != nil {
				t.Fatalf("carve: %v", err)
			}
			i.bind(request("again", "c", 28))
			i.release("c")
		}
		begin()
		drained, _ := i.table.Find("again")
		must.Do(t, i.Pools().Retire(t.Context(), "again"))
		begin()
		i.Pools().retireDrained(drained)
		if p, ok := i.Pools().Get("again"); !ok || p.State != ledger.PoolOpen {
			t.Errorf("%s is %+v, %t; want it there, and open", name, p, ok)
		}
		if b, err := i.store.BlockOf(t.Context(), "c"); err != nil || b.State != ledger.Cooling {
			t.Errorf("%s: the block that cooled in it is %+v, %v; want it to cool", name, b, err)
		}
	}
}

// Somebody deletes the fence of a quota: the limit holds, and nobody is stuck.
func TestQuota_TheFenceIsDeleted(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	other := l.another()
	under := func(claim string) ledger.Request {
		r := request("p", claim, 28)
		r.Class, r.Limits.Class = "class", big.NewInt(48)
		return r
	}
	for i, a := range []*fixture{l, other, l} {
		a.bind(under(fmt.Sprint("c", i)))
		resp, err := l.etcd.Client().Delete(t.Context(), store.DefaultPrefix+"/quotas/", clientv3.WithPrefix())
		if err != nil || resp.Deleted != 1 {
			t.Fatalf("%d fences were deleted, %v; want 1", resp.Deleted, err)
		}
	}
	for _, a := range []*fixture{l, other} {
		failsAs[*ledger.QuotaError](a.Bind(t.Context(), under("one too many")))(t)
	}
	l.sameAsLedger(other.Allocator)
}

// While the watch was cut off, the fence of a workspace without root pools was deleted as unused, and etcd
// has compacted that. Memory has the fence no more, and that of a quota. A root pool is registered all the same.
func TestRegister_TheFenceIsDeleted(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.pool("o", "10.9.0.0/24")
	former := root("former", "10.1.0.0/24")
	former.Cluster = "tenant"
	must.Get(l.Pools().Register(t.Context(), former))(t)
	must.Do(t, l.Pools().Retire(t.Context(), former.ID))
	under := of("tenant", request("o", "limited", 28))
	under.Class, under.Limits.Class = "class", big.NewInt(16)
	l.bind(under)
	l.free("limited")
	gone := space.ClassAccount(under)
	l.catchUp(t)
	behind, watch := l.behind()
	l.missed(behind, watch, func() {
		must.Get(l.etcd.Client().Delete(t.Context(), l.engine.Keys.Quota(gone.Class, gone.Cluster)))(t)
		engine.Guard{Engine: l.engine}.Prune(t.Context())
		if left := l.keysWith("/workspaces/tenant"); len(left) > 0 {
			t.Fatalf("the ledger has %v, want no fence", left)
		}
		l.bind(request("o", "unseen", 26))
	})
	if fences, left := behind.table.Rootless(), behind.table.Quotas.Fence(gone); len(fences) > 0 || left > 0 {
		t.Errorf("fences that are gone from the ledger are in memory: %v, and that of a quota as of %d", fences, left)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	next := root("next", "10.0.0.0/24")
	next.Cluster = "tenant"
	must.Get(behind.Pools().Register(ctx, next))(t)
	l.sameAsLedger(behind.Allocator)
}

// What a workspace has left behind in the ledger goes when it is used no more.
func TestLeftovers(t *testing.T) {
	r := newRoom(t)
	guard := engine.Guard{Engine: r.engine}
	under := of("leaver", request("p", "c", 28))
	under.Class, under.Limits.Class = "class", big.NewInt(48)
	r.bind(under)
	own := root("own", "192.168.0.0/24")
	own.Cluster = "leaver"
	for range 2 {
		must.Get(r.Pools().Register(t.Context(), own))(t)
		must.Do(t, r.Pools().Retire(t.Context(), own.ID))
		r.catchUp(t) // a late event of the pool would have it known once more, for a moment
		guard.Prune(t.Context())
		if left := r.keysWith("/workspaces/leaver"); len(left) > 0 {
			t.Errorf("a workspace without a root pool has left %v", left)
		}
	}
	r.release("c")
	r.catchUp(t)
	if guard.Prune(t.Context()); len(r.keysWith("/quotas/")) != 1 {
		t.Error("the fence of a quota that was used a moment ago is gone")
	}
	r.clock.advance(2 * 10 * time.Minute)
	if guard.Prune(t.Context()); len(r.keysWith("/quotas/")) != 0 {
		t.Errorf("there is %v, which nobody has used for long", r.keysWith("/quotas/"))
	}
	r.catchUp(t)
	if n, _ := r.table.Quotas.Size(); n != 0 {
		t.Errorf("%d accounts are remembered; want none", n)
	}
	under.Holder.Claim = "again"
	r.bind(under)
	r.sameAsLedger()
}

// The last block of a draining pool goes just when an attempt to retire the pool has
// found it in use.
func TestDrain_TheLastBlockGoesMeanwhile(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.bind(request("p", "last", 28))
	must.Do(t, l.Pools().Drain(t.Context(), "p"))
	// Another writer, that would retire the pool itself if it were an Allocator.
	late := request("p", "late", 28)
	block, claim := l.keys.Space("p").Block(prefix("10.0.0.16/28")), l.keys.Claim("late")
	write := func(count int64, ops ...clientv3.Op) {
		if _, err := l.etcd.Client().Txn(t.Context()).Then(append(ops, store.Put(l.keys.Space("p").Head(), store.EncodeHead(count, "")))...).Commit(); err != nil {
			t.Errorf("etcd transaction: %v", err)
		}
	}
	var commits atomic.Int64
	l.swap(func(h *engine.Hooks) {
		h.BeforeCommit = func(ledger.SpaceID) error {
			if commits.Add(1) == 2 { // the retirement, after the release
				write(10, store.Put(block, newBind(wanted{Request: late}, wanted{Request: late}.holding(l.engine.Hooks.Now())).value),
					store.Put(claim, store.EncodeClaim("p", prefix("10.0.0.16/28"))))
			}
			return nil
		}
		h.AfterCommit = func(ledger.SpaceID) error {
			if commits.Load() == 3 { // it has found the pool in use
				commits.Add(1)
				write(11, store.Remove(block), store.Remove(claim))
				l.catchUp(t)
			}
			return nil
		}
	})
	l.free("last")
	for len(l.keysWith("/pools/p")) > 0 {
		runtime.Gosched() // until the test's time is over
	}
	l.sameAsLedger()
}
