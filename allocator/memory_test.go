package allocator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// registerIn registers a pool in the address domain d.
func (l *fixture) registerIn(id ledger.PoolID, cidr string) {
	l.t.Helper()
	must.Get(l.Pools().Register(l.t.Context(), member(id, cidr)))(l.t)
}

// A pool that is replaced by another of its CIDR while a bind is in flight has the addresses of that bind as
// taken, whatever becomes of the bind: memory has none as free that the ledger gave to others meanwhile.
func TestPutPool_WhileABindIsInFlight(t *testing.T) {
	type hook = func(*engine.Hooks, func(ledger.SpaceID) error)
	before := func(h *engine.Hooks, f func(ledger.SpaceID) error) { h.BeforeCommit = f }
	after := func(h *engine.Hooks, f func(ledger.SpaceID) error) { h.AfterCommit = f }
	for point, c := range map[string]struct {
		at     hook
		landed bool
		err    error
	}{
		"not sent yet":  {before, false, nil},
		"never sent":    {before, false, errLost},
		"answered late": {after, true, nil},
		"answer lost":   {after, true, errLost},
	} {
		for _, next := range []ledger.PoolID{"a", "a2"} {
			t.Run(point+", by "+string(next), func(t *testing.T) {
				l := newLedger(t)
				l.registerIn("a", "10.0.0.0/24")
				l.registerIn("b", "10.1.0.0/24")
				other := l.another()
				var done atomic.Bool
				var theirs ledger.Block
				l.swap(func(h *engine.Hooks) {
					c.at(h, func(ledger.SpaceID) error {
						if done.Swap(true) {
							return nil
						}
						if c.landed {
							other.free("mine")
						}
						if err := other.Pools().Retire(t.Context(), "a"); err != nil {
							t.Errorf("Retire: %v", err)
						}
						other.registerIn(next, "10.0.0.0/24")
						theirs = other.bind(request(next, "theirs", 28))
						l.catchUp(t)
						return c.err
					})
				})
				if b, err := l.Bind(t.Context(), request("a", "mine", 28)); err == nil && b.Prefix == theirs.Prefix && b.Revision >= theirs.Revision {
					t.Errorf("Bind = %s, which is theirs", b.Prefix)
				}
				for _, claim := range []string{"later", "last"} {
					if b := l.bind(request(next, claim, 28)); b.Prefix == theirs.Prefix {
						t.Errorf("bind of %s = %s, which is theirs", claim, b.Prefix)
					}
				}
				l.sameAsLedger(other.Allocator)
			})
		}
	}
}

// A pool that is registered over the blocks of one whose record cannot be read has them as taken.
func TestPutPool_OverBlocksOfAPoolThatCannotBeRead(t *testing.T) {
	l := newLedger(t)
	l.registerIn("p", "10.0.0.0/24")
	l.registerIn("q", "10.1.0.0/24")
	for _, claim := range []string{"one", "two"} {
		l.bind(request("p", claim, 28))
	}
	record, ok := l.Pools().Get("p")
	if !ok {
		t.Fatal("pool p is not known")
	}
	l.put("pools/p", unreadable["newer"])
	l.put("spaces/"+string(record.Space)+"/blocks/010.000.000.032-28", unreadable["newer"])
	older := l.another()
	over := record
	over.ID, over.Name, over.CIDR = "r", "r", prefix("10.0.0.0/26")
	l.put("pools/r", store.EncodePool(over)) // as the newer program registers it
	l.putHeld(record.Space, request("p", "three", 28), "10.0.0.32/28")
	older.catchUp(t)
	older.gets(request("r", "four", 28), "10.0.0.48/28")
}

// unreadableKV fails what reads more than a key, while it is told to.
type unreadableKV struct {
	clientv3.KV
	fails atomic.Int32 // so many times
	was   chan struct{}
}

func (kv *unreadableKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if op := clientv3.OpGet(key, opts...); len(op.RangeBytes()) > 0 && kv.fails.Add(-1) >= 0 {
		kv.was <- struct{}{}
		return nil, context.DeadlineExceeded
	}
	return kv.KV.Get(ctx, key, opts...)
}

// When a pool can be read again, and the ledger cannot be just then, nothing goes on until it was read: the
// blocks of the pool are known before the pool is.
func TestWatch_AHealedPoolWhileTheLedgerCannotBeRead(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.registerIn("q", "10.1.0.0/24")
	record, _ := l.Pools().Get("q")
	healed := record
	healed.ID, healed.Name, healed.CIDR = "p", "p", prefix("10.0.0.0/24")
	kv := &unreadableKV{KV: l.etcd.Client().KV, was: make(chan struct{}, 2)}
	other := &fixture{Allocator: l.through(kv, l.etcd.Client().Watcher), t: t, etcd: l.etcd}
	l.put("pools/p", unreadable["newer"])
	l.putHeld(record.Space, request("p", "theirs", 28), "10.0.0.0/28")
	other.catchUp(t)

	kv.fails.Store(2)
	l.put("pools/p", store.EncodePool(healed))
	<-kv.was
	must.Fail(other.Bind(t.Context(), request("q", "early", 28)))(t, ledger.ErrUnavailable)
	if _, ok := other.engine.Table.Find("p"); ok {
		t.Error("the pool is known before the ledger was read again")
	}
	<-kv.was
	other.catchUp(t)
	other.gets(request("p", "mine", 28), "10.0.0.16/28")
	other.sameAsLedger()
}

// Whatever memory has as free, no transaction puts a block over one that the ledger has. It is refused, and
// memory is read again.
func TestBind_WhereMemoryIsWrong(t *testing.T) {
	t.Parallel()
	free := func(l *fixture, p string) {
		l.waitFor(t, "p", func(s *engine.Worker) bool { s.Pool("p").Index.Put(prefix(p)); return true })
	}
	for name, op := range map[string]func(*fixture) error{
		"bind": func(l *fixture) error { _, err := l.Bind(t.Context(), request("p", "new", 28)); return err },
		"reserve": func(l *fixture) error {
			_, err := l.Reservations().Reserve(t.Context(), reservation("new", 28))
			return err
		},
		"carve": func(l *fixture) error { _, err := l.carve("p", "child", 28); return err },
		"adopt": func(l *fixture) error {
			_, err := l.Recovery().Adopt(t.Context(), exactly(request("p", "new", 0), "10.0.0.0/28"), ledger.Bound)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := withPool(t, "10.0.0.0/24")
			theirs := l.bind(request("p", "theirs", 28))
			free(l, theirs.Prefix.String())
			if err := op(l); !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("%s where memory is wrong = %v, want %v", name, err, ledger.ErrUnavailable)
			}
			if b, ok, err := l.Lookup(t.Context(), "theirs"); err != nil || !ok || b != theirs {
				t.Errorf("Lookup of the block there = %v, %t, %v; want it unchanged", b, ok, err)
			}
			until(t, l.worker("p"), func(s *engine.Worker) bool { return !s.Stale })
			if err := op(l); err != nil {
				t.Errorf("%s after memory was read again: %v", name, err)
			}
			l.sameAsLedger()
		})
	}
}

// A block that memory has as cooling is given back to its former holder only if the ledger has it so.
func TestBind_AFormerBlockThatMemoryIsWrongAbout(t *testing.T) {
	t.Parallel()
	l := newLedger(t, func(o *Options) { o.Cooldown = func(ledger.Block) (time.Duration, error) { return time.Hour, nil } })
	l.pool("p", "10.0.0.0/24")
	behind, watch := l.behind()
	b := l.bind(request("p", "former", 28))
	l.free("former")
	behind.catchUp(t)
	watch.set(true)
	l.putHeld("p", request("p", "theirs", 28), b.Prefix.String())
	must.Get(l.etcd.Client().Delete(t.Context(), store.DefaultPrefix+"/claims/former"))(t)
	again := request("p", "former", 28)
	for _, id := range []ledger.ClaimID{"former", "successor"} {
		again.Holder.Claim = id
		if got, err := behind.Bind(t.Context(), again); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("Bind of %s where memory is wrong = %s, %v; want %v", id, got.Prefix, err, ledger.ErrUnavailable)
		}
	}
	watch.set(false)
	behind.catchUp(t)
	if got := behind.bind(again); got.Prefix == b.Prefix {
		t.Errorf("Bind = %s, which is theirs", got.Prefix)
	}
	behind.sameAsLedger()
}

func (l *fixture) worker(id ledger.PoolID) *engine.Worker {
	l.t.Helper()
	w, ok := l.engine.WorkerOf(id)
	if !ok {
		l.t.Fatalf("pool %s is not in memory", id)
	}
	return w
}
