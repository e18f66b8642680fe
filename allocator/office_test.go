package allocator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// written reads the whole ledger except its head.
func (l *fixture) written() map[string]string {
	l.t.Helper()
	resp := must.Get(l.etcd.Client().Get(l.t.Context(), store.DefaultPrefix+"/", clientv3.WithPrefix()))(l.t)
	all := map[string]string{}
	for _, kv := range resp.Kvs {
		if key := string(kv.Key); key != store.DefaultPrefix+"/head" {
			all[key] = fmt.Sprint(kv.ModRevision, string(kv.Value))
		}
	}
	return all
}

// A transaction that reaches etcd after another process has taken the office changes nothing, and its caller gets
// ErrDeposed. The former writer writes nothing more.
func TestOffice_RefusesTransactionsOfAFormerWriter(t *testing.T) {
	for name, op := range calls() {
		t.Run(name, func(t *testing.T) {
			l := newReady(t)
			var before map[string]string
			l.swap(func(h *engine.Hooks) {
				h.BeforeCommit = first(func() {
					l.open()
					before = l.written()
				})
			})
			must.Be(t, op(l), ledger.ErrDeposed)
			must.Be(t, op(l), ledger.ErrDeposed)
			if after := l.written(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the ledger is %v, and it was %v", after, before)
			}
			<-l.Failed()
			must.Be(t, l.Err(), ledger.ErrDeposed)
			must.Be(t, l.Healthy(), ledger.ErrDeposed)
		})
	}
}

// A former writer that has not noticed the change of the office fails with ErrDeposed, too, if its memory lacks the
// pool of a call. It does not say that the pool, or a block, does not exist.
func TestOffice_DeposesAFormerWriterThatLacksAPool(t *testing.T) {
	for name, op := range calls() {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t)
			former := l.Allocator
			l.Allocator = l.open()
			l.ready()
			before := l.written()
			l.Allocator = former
			must.Be(t, op(l), ledger.ErrDeposed)
			if after := l.written(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the ledger is %v, and it was %v", after, before)
			}
		})
	}
}

// The next writer has retired a derived pool that the former writer still has in memory. Provision by the former writer
// fails with ErrDeposed, and does not return that pool.
func TestOffice_LetsAFormerWriterProvisionNothing(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	wanted := ofNetwork("net", "gone")
	made := l.provision("p", 24, wanted)
	must.Do(t, l.open().Pools().Retire(t.Context(), made.ID))
	_, err := l.Derived().Provision(t.Context(), ledger.Request{Pool: "p", Length: 24}, wanted, nil)
	must.Be(t, err, ledger.ErrDeposed)
}

// A former writer does not write the keys outside of the spaces either: slices, origin and history.
func TestOffice_KeepsAFormerWriterFromOtherKeys(t *testing.T) {
	for name, write := range map[string]func(*fixture) error{
		"slice": func(l *fixture) error {
			return l.Slices().Put(l.t.Context(), ledger.Slice{Pool: "p", Cluster: "w", State: ledger.SliceGiven}, 0)
		},
		"slices":  func(l *fixture) error { return l.Slices().DropAll(l.t.Context(), "p") },
		"origin":  func(l *fixture) error { return l.store.ReplaceOrigin(l.t.Context(), "elsewhere") },
		"history": func(l *fixture) error { return l.engine.PruneHistory(l.t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t, func(o *Options) { o.History = time.Hour })
			l.pool("p", "10.0.0.0/24")
			must.Do(t, l.Slices().Put(t.Context(), ledger.Slice{Pool: "p", Cluster: "v", State: ledger.SliceGiven}, 0))
			l.bind(request("p", "gone", 28))
			l.free("gone")
			l.swap(func(h *engine.Hooks) { h.Now = func() time.Time { return time.Now().Add(2 * time.Hour) } })
			l.open()
			before := l.written()
			must.Be(t, write(l), ledger.ErrDeposed)
			if after := l.written(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the ledger is %v, and it was %v", after, before)
			}
			must.Be(t, l.Err(), ledger.ErrDeposed)
		})
	}
}

// A process that has taken the office, and has not got the answer, finds its own head when it tries again. It fails
// with ErrDeposed if another process has taken the office meanwhile, or the head is lost or older.
func TestOffice_FindsItsOwnHeadAfterALostAnswer(t *testing.T) {
	for name, meanwhile := range map[string]func(*fixture){
		"it was taken":               func(*fixture) {},
		"and by somebody else since": func(l *fixture) { l.open() },
		"and the ledger is lost since": func(l *fixture) {
			must.Get(l.etcd.Client().Delete(l.t.Context(), l.keys.Office()))(l.t)
		},
		"and a former one was restored": func(l *fixture) { l.put("head", `{"v":1,"n":1,"by":"somebody"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t)
			l.open()
			candidacy := l.store.Candidate("this one", "")
			l.lose(t, func() {
				_, err := candidacy.Take(t.Context())
				must.Be(t, err, ledger.ErrUnavailable)
			})
			meanwhile(l)
			_, err := candidacy.Take(t.Context())
			if name == "it was taken" {
				must.Do(t, err)
				return
			}
			must.Be(t, err, ledger.ErrDeposed)
		})
	}
}

// lose loses the answers to transactions while do runs.
func (l *fixture) lose(t *testing.T, do func()) {
	t.Helper()
	kv := l.store.Client.KV
	l.store.Client.KV = lossy{kv}
	do()
	l.store.Client.KV = kv
}

// lossy is an etcd whose answers to transactions are lost.
type lossy struct{ clientv3.KV }

func (kv lossy) Txn(ctx context.Context) clientv3.Txn { return &lossyTxn{kv.KV.Txn(ctx)} }

type lossyTxn struct{ clientv3.Txn }

func (t *lossyTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { t.Txn = t.Txn.If(cs...); return t }
func (t *lossyTxn) Then(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Then(ops...); return t }
func (t *lossyTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }
func (t *lossyTxn) Commit() (*clientv3.TxnResponse, error) {
	_, _ = t.Txn.Commit()
	return nil, errLost
}

// delayedKV is an unreliable etcd that commits some transactions only once another process has the office.
type delayedKV struct {
	clientv3.KV
	bad     atomic.Bool
	changed chan struct{} // closed when another process has the office
	waits   func()        // called when a caller waits for the channel changed
	delayed sync.WaitGroup
	landed  atomic.Int32 // how many of the delayed transactions have written all the same
}

func (kv *delayedKV) Txn(ctx context.Context) clientv3.Txn {
	return &delayedTxn{Txn: kv.KV.Txn(context.WithoutCancel(ctx)), kv: kv}
}

// delayed opens an Allocator on a delayedKV. The Allocator has the office.
func (l *fixture) delayed() (*Allocator, *delayedKV) {
	kv := &delayedKV{KV: l.etcd.Client().KV, changed: make(chan struct{})}
	a := l.through(kv)
	return a, kv
}

type delayedTxn struct {
	clientv3.Txn
	kv     *delayedKV
	writes bool
}

func (t *delayedTxn) If(cs ...clientv3.Cmp) clientv3.Txn { t.Txn = t.Txn.If(cs...); return t }
func (t *delayedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.writes = slices.ContainsFunc(ops, func(op clientv3.Op) bool { return !op.IsGet() })
	t.Txn = t.Txn.Then(ops...)
	return t
}
func (t *delayedTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }

func (t *delayedTxn) Commit() (*clientv3.TxnResponse, error) {
	if !t.writes || !t.kv.bad.Load() {
		return t.Txn.Commit()
	}
	switch n := rand.IntN(100); {
	case n < 10: // its answer is lost
		_, _ = t.Txn.Commit()
		return nil, errLost
	case n < 20: // it comes after the change, and its caller does not wait for it
		t.kv.delayed.Go(func() { _, _ = t.late() })
		return nil, errLost
	case n == 20: // it comes after the change, and its caller waits for it
		t.kv.waits()
		return t.late()
	}
	return t.Txn.Commit()
}

// late commits the transaction when another process has the office.
func (t *delayedTxn) late() (*clientv3.TxnResponse, error) {
	<-t.kv.changed
	resp, err := t.Txn.Commit()
	if err == nil && resp.Succeeded {
		t.kv.landed.Add(1)
	}
	return resp, err
}

// The office changes hands six times. Meanwhile 16 callers call the Allocator that has the office, and go on calling it
// when it has lost the office. Transactions are lost, or come after the change. No address is given twice, no
// transaction of a former writer is committed, and the memory of the last writer is as the ledger.
func TestOffice_ChangesHandsInAStorm(t *testing.T) {
	const offices, callers, steps, claims = 6, 16, 25, 48
	l := newLedger(t)
	for id, cidr := range map[ledger.PoolID]string{"a": "10.0.0.0/27", "b": "10.0.0.32/27", "c": "10.0.0.64/26", "around": "10.0.0.0/25"} {
		l.registerIn(id, cidr)
	}
	all := make([]*stormClaim, claims)
	for i := range all {
		all[i] = &stormClaim{id: ledger.ClaimID(fmt.Sprint("c", i))}
	}
	current, kv := l.delayed()
	for office := range offices {
		var calls sync.WaitGroup
		var done atomic.Int32
		half := make(chan struct{})
		change := sync.OnceFunc(func() { close(half) })
		kv.waits = change
		kv.bad.Store(true)
		for caller := range callers {
			calls.Go(func() {
				random := rand.New(rand.NewPCG(uint64(office), uint64(caller)))
				for range steps {
					c := all[random.IntN(claims)]
					c.mu.Lock()
					c.step(l, current, random)
					c.mu.Unlock()
					if done.Add(1) == callers*steps/2 {
						change()
					}
				}
			})
		}
		<-half
		next, nextKV := l.delayed()
		close(kv.changed)
		calls.Wait()
		kv.delayed.Wait()
		if n := kv.landed.Load(); n > 0 {
			t.Errorf("office %d: %d transactions were carried out after the change", office, n)
		}
		if err := current.Err(); err != nil {
			must.Be(t, err, ledger.ErrDeposed)
		}
		for _, c := range all {
			c.certain(l, next)
		}
		current, kv = next, nextKV
	}
	l.asFree(current, l.sameAsLedger())
}

// certain asks the new writer for the block of a claim, and compares it if the claim's block was certain.
func (c *stormClaim) certain(l *fixture, a *Allocator) {
	l.t.Helper()
	b, _, err := a.Lookup(l.t.Context(), c.id)
	if err != nil {
		l.t.Fatalf("Lookup of %s: %v", c.id, err)
	}
	if c.is && b.Prefix != c.b.Prefix {
		l.t.Errorf("%s has %s, want %s", c.id, b.Prefix, c.b.Prefix)
	}
	c.b, c.is, c.late = b, true, false
}
