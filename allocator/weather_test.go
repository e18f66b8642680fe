package allocator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// through opens the ledger again, by an Allocator that uses this KV.
func (l *fixture) through(kv clientv3.KV) *Allocator {
	l.t.Helper()
	client := clientv3.NewCtxClient(context.Background())
	client.KV, client.Watcher = kv, l.etcd.Client().Watcher
	a := must.Get(Open(l.t.Context(), client, Options{}))(l.t)
	l.t.Cleanup(func() { _ = a.Close() })
	l.Allocator = a
	return a
}

// If etcd takes fewer operations in a transaction than the Allocator was told, its groups become smaller.
func TestGroups_ShrinkToTheOperationsThatEtcdTakes(t *testing.T) {
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

// A full etcd refuses writes in plain words, and goes on answering reads.
func TestNoSpace_RefusesWritesAndServesReads(t *testing.T) {
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

func TestClosed_AnswersSentAndQueuedCalls(t *testing.T) {
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
