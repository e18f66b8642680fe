package allocator

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// readings are further calls that ask the ledger. Most of them only read it.
var readings = map[string]func(*fixture) error{
	"look up": func(l *fixture) error { _, _, err := l.Lookup(l.t.Context(), "c"); return err },
	"list": func(l *fixture) error {
		for _, err := range l.List(l.t.Context(), ListOptions{}) {
			return err
		}
		return nil
	},
	"list the blocks that overlap": func(l *fixture) error {
		_, err := l.Pools().Overlapping(l.t.Context(), "p", prefix("10.0.0.0/24"))
		return err
	},
	"preview": func(l *fixture) error {
		_, err := l.Preview(l.t.Context(), request("p", "new", 28))
		return err
	},
	"read":        func(l *fixture) error { _, _, _, err := l.Pools().Read(l.t.Context(), "p"); return err },
	"origin":      func(l *fixture) error { _, err := l.Recovery().Origin(l.t.Context(), "here"); return err },
	"freeze":      func(l *fixture) error { return l.Recovery().Freeze(l.t.Context(), "p", time.Time{}) },
	"resume":      func(l *fixture) error { return l.Recovery().Resume(l.t.Context(), "p", 1000) },
	"list slices": func(l *fixture) error { _, err := l.Slices().List(l.t.Context(), "p"); return err },
	"put a slice": func(l *fixture) error {
		return l.Slices().Put(l.t.Context(), ledger.Slice{Pool: "p", Cluster: "tenant", State: ledger.SliceGiven}, 0)
	},
	"drop slices": func(l *fixture) error { return l.Slices().DropAll(l.t.Context(), "p") },
	"adopt": func(l *fixture) error {
		_, err := l.Recovery().Adopt(l.t.Context(), exactly(request("p", "adopted", 0), "10.0.0.64/26"), ledger.Bound)
		return err
	},
}

// A call on a closed Allocator fails at once with ErrClosed, whatever it would ask or wait for.
func TestClosed_FailsEveryCallAtOnce(t *testing.T) {
	l := newReady(t)
	must.Do(t, l.Close())
	calls := calls()
	maps.Copy(calls, readings)
	delete(calls, "release the last of a draining pool") // which waits until the pool is gone
	begun := time.Now()
	for name, call := range calls {
		if err := call(l); !errors.Is(err, ledger.ErrClosed) || errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%s: %v, want %v", name, err, ledger.ErrClosed)
		}
	}
	if took := time.Since(begun); took > store.DefaultTimeout/2 {
		t.Errorf("%d calls took %s, want answers at once", len(calls), took)
	}
}

// counted calls the function done after its nth transaction.
type counted struct {
	clientv3.KV
	n    atomic.Int32
	done func()
}

func (c *counted) Txn(ctx context.Context) clientv3.Txn { return countedTxn{c.KV.Txn(ctx), c} }

type countedTxn struct {
	clientv3.Txn
	of *counted
}

func (t countedTxn) If(cs ...clientv3.Cmp) clientv3.Txn { return countedTxn{t.Txn.If(cs...), t.of} }
func (t countedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	return countedTxn{t.Txn.Then(ops...), t.of}
}
func (t countedTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	return countedTxn{t.Txn.Else(ops...), t.of}
}

func (t countedTxn) Commit() (*clientv3.TxnResponse, error) {
	resp, err := t.Txn.Commit()
	if t.of.n.Add(-1) == 0 {
		t.of.done()
	}
	return resp, err
}

// A bind that is in flight when the Allocator is closed gets its block if the outcome is known. Otherwise its error
// says that the claim may have a block.
func TestClosed_TellsABindInFlightItsOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		lost    error // instead of the answer
		after   int32 // so many transactions the Allocator is closed
		unknown bool
		blocks  int
	}{
		"committed":                         {after: 1, blocks: 1},
		"the answer is lost":                {lost: errLost, after: 1, unknown: true, blocks: 1},
		"the answer is lost, and asked for": {lost: errLost, after: 2, blocks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := withPool(t, "10.0.0.0/24")
			kv := &counted{KV: l.etcd.Client().KV}
			a := l.through(kv)
			closed := make(chan error, 1)
			kv.done = func() {
				go func() { closed <- a.Close() }()
				<-a.engine.Ctx.Done()
			}
			kv.n.Store(c.after)
			a.engine.Hooks.AfterCommit = func(ledger.SpaceID) error { return c.lost }
			_, err := a.Bind(t.Context(), request("p", "c", 26))
			must.Do(t, <-closed)
			switch {
			case !c.unknown:
				must.Do(t, err)
			case !errors.Is(err, ledger.ErrClosed) || !errors.Is(err, ledger.ErrUnavailable):
				t.Errorf("Bind = %v; want %v, with %v", err, ledger.ErrClosed, ledger.ErrUnavailable)
			}
			if blocks := etcdtest.CheckLedger(t, l.etcd.Client(), store.DefaultPrefix); len(blocks) != c.blocks {
				t.Errorf("the ledger has %v, want %d blocks", blocks, c.blocks)
			}
		})
	}
}
