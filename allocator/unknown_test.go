package allocator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var errLost = errors.New("the connection was lost")

// once returns a hook that fails at the first transaction only.
func once(err error) func(ledger.SpaceID) error {
	var done atomic.Bool
	return func(ledger.SpaceID) error {
		if done.Swap(true) {
			return nil
		}
		return err
	}
}

// operations are the calls that write, on a ledger that is ready for them. Each can be repeated.
var operations = map[string]func(*fixture) error{
	"bind": func(l *fixture) error {
		b, err := l.Bind(l.t.Context(), request("p", "new", 26))
		if err == nil && b.Prefix != prefix("10.0.0.64/26") {
			err = fmt.Errorf("got %s", b.Prefix)
		}
		return err
	},
	"release": func(l *fixture) error { return l.Release(l.t.Context(), "c") },
	"retain": func(l *fixture) error {
		_, _, err := l.Retained().Retain(l.t.Context(), "c", time.Time{})
		return err
	},
	"register": func(l *fixture) error {
		_, err := l.Pools().Register(l.t.Context(), root("s", "10.2.0.0/24"))
		return err
	},
	"exclude": func(l *fixture) error {
		return l.Pools().Exclude(l.t.Context(), "p", []netip.Prefix{prefix("10.0.0.192/26")})
	},
	"drain":  func(l *fixture) error { return l.Pools().Drain(l.t.Context(), "p") },
	"retire": func(l *fixture) error { return l.Pools().Retire(l.t.Context(), "empty") },
	"carve": func(l *fixture) error {
		p, err := l.carve("p", "new", 26)
		if err == nil && p.CIDR != prefix("10.0.0.64/26") {
			err = fmt.Errorf("got %s", p.CIDR)
		}
		return err
	},
	"retire a child": func(l *fixture) error { return l.Pools().Retire(l.t.Context(), "child") },
	"release the last of a draining pool": func(l *fixture) error {
		err := l.Release(l.t.Context(), "last")
		if err == nil {
			l.waitGone("draining")
		}
		return err
	},
	"hand over a retained block": func(l *fixture) error {
		_, err := l.Retained().HandOver(l.t.Context(), l.kept, successor("kept", "later"))
		return err
	},
	"hand over a bound block": func(l *fixture) error {
		_, err := l.Retained().HandOver(l.t.Context(), l.made, successor("made", "uid"))
		return err
	},
	"bind for a CREATE": func(l *fixture) error {
		_, err := l.Bind(l.t.Context(), created("new", 26))
		return err
	},
	"free what a failed CREATE was given": func(l *fixture) error {
		b, ok, err := l.Lookup(l.t.Context(), l.made.Holder.Claim)
		if err == nil && ok {
			err = l.ReleaseFor(l.t.Context(), b, ledger.CauseCreateFailed)
		}
		return err
	},
	"provision": func(l *fixture) error {
		_, err := l.Derived().Provision(l.t.Context(), ledger.Request{Pool: "p", Length: 26}, ofNetwork("net", "new"), nil)
		return err
	},
	"begin an address space": func(l *fixture) error {
		_, err := l.Bind(l.t.Context(), request(l.unbegun, "first", 32))
		return err
	},
	"release the last of an address space": func(l *fixture) error {
		err := l.Release(l.t.Context(), "lone")
		if err == nil {
			l.waitGone(l.lone)
		}
		return err
	},
	"hold": func(l *fixture) error {
		_, err := l.Derived().Hold(l.t.Context(), l.loose, claim("range"))
		return err
	},
	"hand": func(l *fixture) error {
		ok, err := l.Derived().Hand(l.t.Context(), l.derived, "range", claim("next"))
		if err == nil && !ok {
			err = errors.New("it is not handed over")
		}
		return err
	},
	"drop":              func(l *fixture) error { return l.Derived().Drop(l.t.Context(), l.derived, "range", time.Time{}) },
	"retire a shut one": func(l *fixture) error { return l.Pools().Retire(l.t.Context(), l.shut) },
}

// closings are the calls that write nothing, because the closing of a pool is in memory alone.
var closings = map[string]func(*fixture) error{
	"begin": func(l *fixture) error {
		_, err := l.Derived().Begin(l.t.Context(), l.derived, "range", time.Now())
		return err
	},
	"confirm": func(l *fixture) error {
		return l.Derived().Confirm(l.t.Context(), l.shut, closedUntilOf(l.Allocator, l.shut))
	},
	"reopen": func(l *fixture) error {
		return l.Derived().Reopen(l.t.Context(), l.shut, closedUntilOf(l.Allocator, l.shut))
	},
}

// calls returns the operations, and the closings.
func calls() map[string]func(*fixture) error {
	all := maps.Clone(operations)
	maps.Copy(all, closings)
	return all
}

// newReady makes a ledger in which each of the operations has something to do.
func newReady(t *testing.T) *fixture {
	t.Helper()
	l := newLedger(t)
	l.ready()
	return l
}

// ready gives each of the operations something to do.
func (l *fixture) ready() {
	t := l.t
	t.Helper()
	l.pool("p", "10.0.0.0/24")
	l.pool("empty", "10.1.0.0/24")
	l.pool("draining", "10.3.0.0/24")
	l.bind(request("p", "c", 26))
	l.bind(request("draining", "last", 26))
	must.Get(l.carve("p", "child", 25))(t)
	must.Do(t, l.Pools().Drain(t.Context(), "draining"))
	l.pool("r", "10.6.0.0/24")
	made := created("made", 26)
	made.Pool = "r"
	l.made = l.bind(made)
	l.bind(request("r", "kept", 26))
	l.kept = l.retain("kept", time.Now())
	l.someDerived()
}

// someDerived makes a pool that a claim holds, a closed pool, a pool that no claim holds, and an address space with one
// block.
func (l *fixture) someDerived() {
	l.t.Helper()
	l.pool("q", "10.4.0.0/16")
	for name, id := range map[string]*ledger.PoolID{"open": &l.derived, "shut": &l.shut} {
		wanted := held(name)
		*id = l.provision("q", 24, wanted).ID
	}
	must.Get(l.Derived().Begin(l.t.Context(), l.shut, "range", time.Now()))(l.t)
	l.loose = l.provision("q", 24, ofNetwork("net", "loose")).ID
	l.pool("t", "10.5.0.0/24")
	l.lone = l.space("t", "lone").ID
	l.bind(request(l.lone, "lone", 32))
	l.unbegun = l.space("t", "a").ID
}

// losses make a transaction end without an answer, before it is sent or after it was committed.
var losses = map[string]func(*engine.Hooks, func(ledger.SpaceID) error){
	"not sent":    func(h *engine.Hooks, f func(ledger.SpaceID) error) { h.BeforeCommit = f },
	"answer lost": func(h *engine.Hooks, f func(ledger.SpaceID) error) { h.AfterCommit = f },
}

// The transaction of an operation is lost before it was sent, or its answer after it was committed. Every operation
// ends as it does without such a fault.
func TestUnknownOutcome_DoesNotChangeTheResultOfAnOperation(t *testing.T) {
	for point, arm := range losses {
		for name, op := range calls() {
			t.Run(name+", "+point, func(t *testing.T) {
				l := newReady(t)
				l.swap(func(h *engine.Hooks) { arm(h, once(errLost)) })
				must.Do(t, op(l))
				must.Do(t, op(l))
				l.sameAsLedger()
			})
		}
	}
}

// lateKV delays the first transaction that writes. First the Allocator is told that the outcome is unknown, and puts
// its fence. Then the transaction reaches etcd. Before that, no read shows it.
type lateKV struct {
	clientv3.KV
	mu   sync.Mutex
	late func()
	seen int // transactions, from the late one on
}

func (kv *lateKV) Txn(ctx context.Context) clientv3.Txn {
	return &lateTxn{Txn: kv.KV.Txn(context.WithoutCancel(ctx)), kv: kv} // the late one outlives its caller
}

type lateTxn struct {
	clientv3.Txn
	kv     *lateKV
	writes bool
}

func (t *lateTxn) If(cs ...clientv3.Cmp) clientv3.Txn { t.Txn = t.Txn.If(cs...); return t }

func (t *lateTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.Txn, t.writes = t.Txn.Then(ops...), slices.ContainsFunc(ops, func(op clientv3.Op) bool { return !op.IsGet() })
	return t
}

func (t *lateTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }

func (t *lateTxn) Commit() (*clientv3.TxnResponse, error) {
	t.kv.mu.Lock()
	if t.writes || t.kv.seen > 0 {
		t.kv.seen++
	}
	seen, late := t.kv.seen, t.kv.late
	if seen == 1 {
		t.kv.late = func() {
			if resp, err := t.Txn.Commit(); err != nil || resp.Succeeded {
				panic(fmt.Sprintf("a transaction that was given up has not failed: %v, %v", resp, err))
			}
		}
	}
	t.kv.mu.Unlock()
	if seen == 1 {
		return nil, context.DeadlineExceeded
	}
	resp, err := t.Txn.Commit()
	if seen == 2 {
		late()
	}
	return resp, err
}

// A transaction is given up, and reaches etcd when the fence is there: it fails, whatever it would write. The operation
// ends as it does without such a fault.
func TestUnknownOutcome_RefusesALateTransaction(t *testing.T) {
	for name, op := range operations {
		t.Run(name, func(t *testing.T) {
			l := newReady(t)
			kv := &lateKV{KV: l.store.Client.KV}
			l.store.Client.KV = kv
			must.Do(t, op(l))
			must.Do(t, op(l))
			if kv.seen < 3 {
				t.Fatalf("%d transactions were sent; want the late one, its fence, and another", kv.seen)
			}
			l.sameAsLedger()
		})
	}
}

// While etcd is away, callers are told so. When it is back, the blocks of the transactions in between are where they
// were bound.
func TestUnknownOutcome_IsSettledWhenEtcdIsBack(t *testing.T) {
	t.Parallel()
	l := withPool(t, "10.0.0.0/24")
	e := l.goesAway()
	for range 2 {
		must.Fail(l.Bind(t.Context(), request("p", "c", 26)))(t, ledger.ErrUnavailable)
	}
	if l.Healthy() == nil {
		t.Error("healthy, though nothing can be written")
	}
	e.fail.Store(false)
	if got := l.bind(request("p", "d", 26)); got.Prefix != prefix("10.0.0.64/26") && got.Prefix != prefix("10.0.0.0/26") {
		t.Errorf("bind: %v", got)
	}
	l.bind(request("p", "c", 26))
	must.Do(t, l.Healthy())
	l.sameAsLedger()
}

// failing loses all transactions after the first, as a server that is away does.
type failing struct {
	clientv3.KV
	fail atomic.Bool
	sent atomic.Int32
}

func (f *failing) Txn(ctx context.Context) clientv3.Txn {
	if f.fail.Load() && f.sent.Add(1) > 1 {
		return unsent{f.KV.Txn(ctx)}
	}
	return f.KV.Txn(ctx)
}

// goesAway loses the answer to the next transaction, and all later transactions.
func (l *fixture) goesAway() *failing {
	e := &failing{KV: l.store.Client.KV}
	l.store.Client.KV = e
	l.t.Cleanup(func() { l.store.Client.KV = e.KV })
	l.swap(func(h *engine.Hooks) { h.AfterCommit = once(errLost) })
	e.fail.Store(true)
	return e
}

// unsent is a transaction that does not reach etcd. A transaction whose context has ended may reach etcd: gRPC sends
// the request nevertheless, and returns the answer if it comes first.
type unsent struct{ clientv3.Txn }

func (t unsent) If(...clientv3.Cmp) clientv3.Txn      { return t }
func (t unsent) Then(...clientv3.Op) clientv3.Txn     { return t }
func (t unsent) Else(...clientv3.Op) clientv3.Txn     { return t }
func (unsent) Commit() (*clientv3.TxnResponse, error) { return nil, context.Canceled }
