package allocator

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// interrupted is an etcd that is read while something happens.
type interrupted struct {
	clientv3.KV
	sync.Mutex
	at        string // the part of the ledger
	meanwhile func()
}

// interrupt lets something happen once, before a part of the ledger is read.
func (i *interrupted) interrupt(at string, by func()) {
	i.Lock()
	defer i.Unlock()
	i.at, i.meanwhile = at, by
}

// next takes what happens before a key is read.
func (i *interrupted) next(key string) func() {
	i.Lock()
	defer i.Unlock()
	happens := i.meanwhile
	if happens == nil || !strings.HasPrefix(key, store.DefaultPrefix+i.at) {
		return func() {}
	}
	i.meanwhile = nil
	return happens
}

func (i *interrupted) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	i.next(key)()
	return i.KV.Get(ctx, key, opts...)
}

// member returns a pool of a domain.
func member(id ledger.PoolID, cidr string) ledger.Pool {
	p := root(id, cidr)
	p.Space = ledger.DomainSpace("platform", "d")
	return p
}

// mendable returns a ledger with pools x and y of a domain, p with a child, and q, and an Allocator whose watch can be cut off, and
// whose reading be interrupted.
func mendable(t *testing.T) (l, again *fixture, watch *cutter, kv *interrupted) {
	t.Helper()
	l = newLedger(t)
	l.pool("q", "10.9.0.0/24")
	l.pool("p", "10.8.0.0/24")
	must.Get(l.carve("p", "child", 26))(t)
	l.registerIn("x", "10.0.0.0/24")
	l.registerIn("y", "10.1.0.0/24")
	again, watch = l.behind()
	kv = &interrupted{KV: l.etcd.Client().KV}
	again.store.Client.KV = kv
	return l, again, watch, kv
}

// damagedUnseen damages the record of pool x while a watch is cut off. It returns what mends that.
func (l *fixture) damagedUnseen(again *fixture, watch *cutter) (mend func()) {
	l.t.Helper()
	l.missed(again, watch, func() {
		mend = l.spoil("pools/x", unreadable["damaged"])
		l.bind(request("q", "a", 28))
	})
	return mend
}

// overlaps fails the test unless no root pool is registered that overlaps x, whether memory knows x or not.
func (l *fixture) overlaps() {
	l.t.Helper()
	if _, err := l.Pools().Register(l.t.Context(), root("r", "10.0.0.0/25")); err == nil {
		l.t.Error("a root pool is registered that overlaps x")
	}
}

// readAgain waits until memory of no space is stale.
func (l *fixture) readAgain() {
	l.t.Helper()
	stale := func(w *engine.Worker) int {
		if w.Stale {
			return 1
		}
		return 0
	}
	for l.catchUp(l.t); l.engine.Spaces.Count(stale) > 0 && l.t.Context().Err() == nil; l.catchUp(l.t) {
	}
}

// knows fails the test unless memory has pool x.
func (l *fixture) knows() {
	l.t.Helper()
	if _, known := l.Pools().Get("x"); !known {
		l.t.Error("memory does not have pool x, whose record can be read")
	}
	l.overlaps()
}

// The record of a pool was mended while the watch was cut off, and the Allocator writes to its space while it reads the ledger again. Memory has
// the pool all the same, after another reading, so that no other pool gets its addresses.
func TestReread_AMendedPoolOfABusySpace(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string]func(again *fixture){
		"a block": func(again *fixture) { again.bind(request("y", "busy", 28)) },
		"a pool that was lost": func(again *fixture) {
			lost := member("z", "10.2.0.0/24")
			lost.Frozen = true
			must.Get(again.Pools().Register(again.t.Context(), lost))(again.t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, again, watch, kv := mendable(t)
			mend := l.damagedUnseen(again, watch)
			l.missed(again, watch, func() {
				kv.interrupt("/spaces/", func() {
					writes(again)
					kv.interrupt("/pools/", again.overlaps)
				})
				mend()
				l.bind(request("q", "b", 28))
			})
			again.readAgain()
			again.knows()
			l.sameAsLedger(again.Allocator)
		})
	}
}

// A pool is retired while the ledger is read again. That is no reason to read it once more: where pools go all the time, it would
// be read for ever.
func TestReread_ARetirementMeanwhile(t *testing.T) {
	t.Parallel()
	l, again, watch, kv := mendable(t)
	l.missed(again, watch, func() {
		kv.interrupt("/spaces/", func() {
			must.Do(t, again.Pools().Retire(t.Context(), "child"))
			must.Do(t, again.Pools().Retire(t.Context(), "y"))
			kv.interrupt("/pools/", func() { t.Error("the ledger is read once more") })
		})
		l.bind(request("q", "a", 28))
		l.bind(request("q", "b", 28))
	})
	again.readAgain()
	if _, known := again.Pools().Get("child"); known {
		t.Error("memory has the child, which was retired meanwhile")
	}
	l.sameAsLedger(again.Allocator)
}

// The record of a pool can be read again, and memory does not have the pool before the ledger was read again.
func TestUnreadable_OverlapsUntilItIsReadAgain(t *testing.T) {
	t.Parallel()
	l, again, watch, kv := mendable(t)
	mend := l.damagedUnseen(again, watch)
	kv.interrupt("/pools/", again.overlaps)
	mend()
	again.readAgain()
	again.knows()
	l.sameAsLedger(again.Allocator)
}

// A key that cannot be read was put into the space of a child pool while the watch was cut off, and the Allocator writes to that space while
// it reads the ledger again. The child keeps its block.
func TestUnreadable_KeepsAChildUntilItIsReadAgain(t *testing.T) {
	t.Parallel()
	l, again, watch, kv := mendable(t)
	const key = "spaces/child/blocks/nonsense"
	retire := func() {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := again.Pools().Retire(ctx, "child"); err == nil {
			t.Error("the child is retired before its space is read again")
		}
	}
	l.missed(again, watch, func() {
		kv.interrupt("/spaces/", func() {
			must.Do(t, again.Pools().Exclude(t.Context(), "child", []netip.Prefix{prefix("10.8.0.0/32")}))
			kv.interrupt("/pools/", retire)
		})
		l.put(key, unreadable["newer"])
		l.bind(request("q", "a", 28))
	})
	again.readAgain()
	wantUnreadable(t, "Retire", again.Pools().Retire(t.Context(), "child"), key)
}
