package allocator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/golden"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// unreliableKV is an etcd that does not send some transactions, loses the answers to some, and commits some after their
// caller was told that they failed.
type unreliableKV struct {
	clientv3.KV
	bad  atomic.Bool
	late sync.WaitGroup
}

func (kv *unreliableKV) Txn(ctx context.Context) clientv3.Txn {
	return &unreliableTxn{Txn: kv.KV.Txn(context.WithoutCancel(ctx)), kv: kv}
}

type unreliableTxn struct {
	clientv3.Txn
	kv     *unreliableKV
	writes bool
}

func (t *unreliableTxn) If(cs ...clientv3.Cmp) clientv3.Txn { t.Txn = t.Txn.If(cs...); return t }
func (t *unreliableTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.writes = slices.ContainsFunc(ops, func(op clientv3.Op) bool { return !op.IsGet() })
	t.Txn = t.Txn.Then(ops...)
	return t
}
func (t *unreliableTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }

func (t *unreliableTxn) Commit() (*clientv3.TxnResponse, error) {
	if !t.kv.bad.Load() || !t.writes {
		return t.Txn.Commit()
	}
	switch rand.IntN(20) {
	case 0: // it is not sent
	case 1, 2, 3: // its answer is lost
		_, _ = t.Txn.Commit()
	case 4: // it comes late
		t.kv.late.Go(func() { _, _ = t.Txn.Commit() })
	default:
		return t.Txn.Commit()
	}
	return nil, errLost
}

// unreliable opens an Allocator whose etcd is unreliable.
func (l *fixture) unreliable() (*Allocator, *unreliableKV) {
	kv := &unreliableKV{KV: l.etcd.Client().KV}
	a := l.through(kv)
	kv.bad.Store(true)
	return a, kv
}

// asFree checks that each index has the same free blocks as the slow model.
func (l *fixture) asFree(a *Allocator, blocks []etcdtest.Record) {
	l.t.Helper()
	for record := range a.Pools().All() {
		want := golden.New(record.CIDR)
		for _, b := range blocks {
			if b.Space == string(record.Space) {
				want.Take(b.Prefix)
			}
		}
		a.table.Visit(record.ID, func(p *space.Pool) {
			for free := range want.FreeBlocks() {
				if !p.Index.Free(free) {
					l.t.Errorf("pool %s: %v is not free", record.ID, free)
				}
			}
			if got, lengths := p.Index.Histogram(), want.Histogram(); got != lengths {
				l.t.Errorf("pool %s: free blocks by length %v, want %v", record.ID, got, lengths)
			}
		})
	}
}

// stormClaim is a claim of the storm. It has one caller at a time, which knows the block of the claim: an answer with
// another block is wrong.
type stormClaim struct {
	mu   sync.Mutex
	id   ledger.ClaimID
	b    ledger.Block // the block of the claim; the zero Block: the claim has none, or that is not certain
	is   bool         // whether b is certain
	late bool         // a call got no answer in this round: its transaction may be committed until the round ends, even after later answers
}

// Transactions are lost or late, and callers give up. Still the writer gives no address twice, and loses none. Memory
// is as the ledger, and each answer agrees with the earlier answers for its claim.
func TestUnreliable_GivesNoAddressTwiceInAStorm(t *testing.T) {
	const rounds, callers, steps, claims = 9, 16, 20, 48
	l := newLedger(t, func(o *Options) { o.MaxTxnOps = 16 })
	for id, cidr := range map[ledger.PoolID]string{"a": "10.0.0.0/27", "b": "10.0.0.32/27", "c": "10.0.0.64/26", "around": "10.0.0.0/25"} {
		l.registerIn(id, cidr)
	}
	a, kv := l.unreliable()
	all := make([]*stormClaim, claims)
	for i := range all {
		all[i] = &stormClaim{id: ledger.ClaimID(fmt.Sprint("c", i))}
	}
	for round := range rounds {
		kv.bad.Store(true)
		var wg sync.WaitGroup
		for caller := range callers {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(round), uint64(caller)))
				for range steps {
					c := all[random.IntN(claims)]
					c.mu.Lock()
					c.step(l, a, random)
					c.mu.Unlock()
				}
			})
		}
		wg.Wait()
		kv.bad.Store(false)
		kv.late.Wait()
		l.asFree(a, l.sameAsLedger())
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
		for _, c := range all {
			c.late = false
		}
	}
}

// step does something with a claim.
func (c *stormClaim) step(l *fixture, a *Allocator, random *rand.Rand) {
	ctx, cancel := l.t.Context(), func() {}
	if random.IntN(20) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(3000))*time.Microsecond)
	}
	defer cancel()
	var err error
	switch n := random.IntN(10); {
	case n < 5:
		r := request([]ledger.PoolID{"a", "b", "c", "around"}[random.IntN(4)], string(c.id), 28+random.IntN(5))
		if random.IntN(4) == 0 {
			r = exactly(r, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, 64 + byte(random.IntN(16)*4)}), 30).String())
			r.Pool = "c"
		}
		if r.Holder.Cluster = ledger.ClusterName(fmt.Sprint("w", random.IntN(2))); r.Holder.Cluster == "w0" {
			r = limited(24, 0, r)
		}
		var b ledger.Block
		b, err = a.Bind(ctx, r)
		if err == nil && c.is && c.b.Prefix.IsValid() && b.Prefix != c.b.Prefix {
			l.t.Errorf("Bind of %s = %s, and it had %s", c.id, b.Prefix, c.b.Prefix)
		}
		if err == nil {
			c.b, c.is = b, !c.late
		}
	case n < 9:
		if err = a.Release(ctx, c.id); err == nil {
			c.b, c.is = ledger.Block{}, !c.late
		}
	case random.IntN(2) == 0:
		err = a.Retained().SetPolicy(ctx, c.id, []ledger.ReclaimPolicy{ledger.Delete, ledger.Retain}[random.IntN(2)])
	default:
		_, ok, retainErr := a.Retained().Retain(ctx, c.id, time.Time{})
		if err = retainErr; err == nil && c.is && ok != c.b.Prefix.IsValid() {
			l.t.Errorf("Retain of %s says that it has a block: %t, and it had %q", c.id, ok, c.b.Prefix)
		}
	}
	if errors.Is(err, ledger.ErrUnavailable) || err != nil && ctx.Err() != nil {
		c.is, c.late = false, true
	} else if err != nil && !refusal(err) {
		l.t.Errorf("%s: %v, want a refusal", c.id, err)
	}
}

// refusal reports whether an error is an answer that a bind of the storm may get.
func refusal(err error) bool {
	_, over := errors.AsType[*ledger.QuotaError](err)
	return exhausted(err) || over || errors.Is(err, ledger.ErrInUse)
}

// exhausted reports whether a pool has no room for a claim.
func exhausted(err error) bool {
	_, full := errors.AsType[*ledger.ExhaustedError](err)
	return full
}
