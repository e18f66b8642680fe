package allocator

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// cutter is a watch that can be cut off and let on again.
type cutter struct {
	clientv3.Watcher
	mu     sync.Mutex
	off    bool
	cancel context.CancelFunc
}

func (c *cutter) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, c.cancel = context.WithCancel(ctx)
	if c.off {
		c.cancel()
	}
	return c.Watcher.Watch(ctx, key, opts...)
}

func (c *cutter) set(off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
	if off && c.cancel != nil {
		c.cancel()
	}
}

// to has what is opened from now on be a watch of another etcd.
func (c *cutter) to(watcher clientv3.Watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Watcher = watcher
}

// through opens an Allocator that sees etcd through the given parts.
func (l *fixture) through(kv clientv3.KV, watcher clientv3.Watcher, options ...func(*Options)) *Allocator {
	l.t.Helper()
	client := clientv3.NewCtxClient(context.Background())
	client.KV, client.Watcher = kv, watcher
	o := Options{}
	for _, set := range options {
		set(&o)
	}
	a := must.Get(Open(l.t.Context(), client, o))(l.t)
	l.t.Cleanup(func() { _ = a.Close() })
	return a
}

// What happened while the watch was cut off, and is compacted since, is read
// again as a whole.
func TestWatch_Compacted(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, id := range []ledger.PoolID{"p", "q", "r"} {
		l.pool(id, fmt.Sprintf("10.%d.0.0/24", id[0]))
	}
	l.bind(request("p", "goes", 26))
	l.bind(request("p", "stays", 26))
	l.bind(request("q", "last", 24))
	behind, watch := l.behind()
	behind.Waits().Add(request("q", "waiter", 24))
	behind.bind(request("r", "own", 26))
	l.missed(behind, watch, func() {
		behind.bind(request("r", "own, unseen", 26))
		l.free("goes")
		l.free("last")
		for i := range 3 {
			l.bind(request("p", fmt.Sprint("came", i), 26))
		}
		must.Do(t, l.Pools().Retire(t.Context(), "q"))
		l.pool("s", "10.9.0.0/24")
		l.bind(request("s", "new", 26))
	})
	l.holds(7, behind.Allocator)
	if n := waiting(behind.Allocator, "q"); n != 0 {
		t.Error(n, "wait for a pool that is gone")
	}
	for behind.Healthy() != nil && t.Context().Err() == nil {
		runtime.Gosched() // until the new watch is there
	}
}

// afterGet is a KV that does something once, between a Get and its answer.
type afterGet struct {
	clientv3.KV
	do atomic.Pointer[func()]
}

func (g *afterGet) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := g.KV.Get(ctx, key, opts...)
	if do := g.do.Swap(nil); do != nil {
		(*do)()
	}
	return resp, err
}

// What an Allocator commits itself while it reads the ledger again is newer than what it reads. That
// is no sign of a ledger that was restored.
func TestWatch_CompactedWhileBinding(t *testing.T) {
	t.Parallel()
	l := withPool(t, "10.0.0.0/24")
	l.pool("q", "10.1.0.0/24")
	kv, watch := &afterGet{KV: l.etcd.Client().KV}, &cutter{Watcher: l.etcd.Client().Watcher}
	behind := l.through(kv, watch)
	must.Get(behind.Bind(t.Context(), request("p", "before", 26)))(t)
	watch.set(true)
	unseen := l.bind(request("q", "unseen", 26))
	must.Get(l.etcd.Client().Compact(t.Context(), unseen.Revision))(t)
	bound := make(chan error, 1)
	bind := func() {
		_, err := behind.Bind(t.Context(), request("p", "own", 26))
		bound <- err
	}
	kv.do.Store(&bind) // the first Get of what reads the ledger again says as of when
	watch.set(false)
	must.Do(t, <-bound)
	for behind.engine.Watched.Get() < unseen.Revision && behind.Err() == nil && t.Context().Err() == nil {
		runtime.Gosched()
	}
	must.Do(t, behind.Err())
	l.sameAsLedger(behind)
}

// A waiting claim gets the room that appeared while the watch was cut off.
func TestWatch_CompactedWakes(t *testing.T) {
	t.Parallel()
	l := withPool(t, "10.0.0.0/24")
	full := l.bind(request("p", "full", 24))
	woken := make(chan ledger.ClaimID, 1)
	behind, watch := l.behind(func(o *Options) { o.Wake = func(h ledger.Holder) { woken <- h.Claim } })
	behind.Waits().Add(request("p", "w", 25))
	l.missed(behind, watch, func() {
		must.Do(t, l.ReleaseFor(t.Context(), full, ledger.CauseReleased))
		l.bind(request("p", "kept", 25))
	})
	if claim := <-woken; claim != "w" {
		t.Errorf("%s is woken, want w", claim)
	}
	behind.gets(request("p", "w", 25), "10.0.0.128/25")
	l.sameAsLedger(behind.Allocator)
}

// An allocator whose watch is cut off refuses nothing and gives nothing twice:
// it says that it cannot tell.
func TestWatch_CutOffIsNoWrongAnswer(t *testing.T) {
	t.Parallel()
	l := withPool(t, "10.0.0.0/24")
	behind, watch := l.behind()
	l.bind(request("p", "c", 24))
	behind.catchUp(t)
	behind.store.Timeout = 2 * time.Second // long enough for a watch to begin again
	watch.set(true)
	l.free("c")
	_, err := behind.Bind(t.Context(), request("p", "d", 24))
	wantUnavailable(t, err, "watch is behind")
	if behind.Healthy() == nil {
		t.Error("healthy with a watch that is cut off")
	}
	watch.set(false)
	behind.bind(request("p", "d", 24))
	l.sameAsLedger(behind.Allocator)
}

// etcd takes fewer operations in a transaction than the allocator was told.
func TestGroups_ShrinkToWhatEtcdTakes(t *testing.T) {
	l := &fixture{t: t, etcd: etcdtest.NewWith(t, embedetcd.Options{MaxTxnOps: 8})}
	l.Allocator = l.open(func(o *Options) { o.MaxTxnOps = 128 })
	l.pool("p", "10.0.0.0/16")
	binds := make([]func(), 61)
	for i := range binds {
		binds[i] = func() { l.bind(request("p", fmt.Sprint("c", i), 32)) }
	}
	l.grouped(binds[0], binds[1:]...)
	if limit := l.engine.Limit.Load(); limit > 8 {
		t.Error("groups are still of", limit, "operations")
	}
	l.holds(61)
}

// A full etcd refuses writes in plain words, and keeps answering reads.
func TestNoSpace(t *testing.T) {
	e := etcdtest.NewWith(t, embedetcd.Options{QuotaBytes: 1 << 20})
	a, err := Open(t.Context(), e.Client(), Options{})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	l := &fixture{Allocator: a, t: t, etcd: e}
	defer l.Close()
	l.pool("p", "10.0.0.0/8")
	long := strings.Repeat("x", 30_000)
	bound := 0
	for ; err == nil && bound < 5000; bound++ {
		req := request("p", fmt.Sprint("c", bound), 32)
		req.Class = long
		_, err = l.Bind(t.Context(), req)
	}
	if !errors.Is(err, ledger.ErrUnavailable) || !strings.Contains(err.Error(), "database is full") {
		t.Fatalf("got %v, want ErrUnavailable, as the database is full", err)
	}
	if _, ok, err := l.Lookup(t.Context(), "c0"); !ok || err != nil {
		t.Errorf("Lookup = %t, %v; want the block", ok, err)
	}
	if l.Healthy() == nil {
		t.Error("healthy, though nothing can be written")
	}
	etcdtest.CheckLedger(t, e.Client(), store.DefaultPrefix)
}

func TestClosed(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	inFlight, goOn := l.holdCommits()
	sent, queued := make(chan error, 1), make(chan error, 1)
	bind := func(claim string, done chan<- error) {
		_, err := l.Bind(t.Context(), request("p", claim, 26))
		done <- err
	}
	go bind("sent", sent)
	<-inFlight
	go bind("queued", queued)
	l.waitQueued(1)
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	<-l.engine.Ctx.Done()
	goOn()
	must.Do(t, <-sent)
	must.Be(t, <-queued, ledger.ErrClosed)
	must.Do(t, <-closed)
	for _, err := range []error{l.Healthy(), l.Pools().Drain(t.Context(), "p"), l.Close()} {
		if err != nil && !errors.Is(err, ledger.ErrClosed) {
			t.Errorf("got %v, want nil or ErrClosed", err)
		}
	}
	if blocks := etcdtest.CheckLedger(t, l.etcd.Client(), store.DefaultPrefix); len(blocks) != 1 {
		t.Errorf("CheckLedger: %v", blocks)
	}
}
