package allocator

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// states are the blocks of a ledger, as "prefix claims state".
func (l *fixture) wantBlocks(want ...string) {
	l.t.Helper()
	got := []string{}
	for _, b := range l.sameAsLedger() {
		got = append(got, fmt.Sprint(b.Prefix, " ", b.Claims, " ", b.State))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		l.t.Errorf("got  %v\nwant %v", got, want)
	}
}

func (l *fixture) adopt(claim, p string, state ledger.BlockState) ledger.Block {
	l.t.Helper()
	return must.Get(l.Recovery().Adopt(l.t.Context(), exactly(request("p", claim, 0), p), state))(l.t)
}

func (l *fixture) free(claim ledger.ClaimID) {
	l.t.Helper()
	must.Do(l.t, l.Release(l.t.Context(), claim))
}

func TestAdopt_FreePrefix(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	must.Do(t, l.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.64/26")}))
	first := l.adopt("a", "10.0.0.0/26", ledger.Retained)
	l.adopt("excluded", "10.0.0.80/28", ledger.Bound)
	must.Do(t, l.Pools().Drain(t.Context(), "p"))
	l.adopt("draining", "10.0.0.128/28", ledger.Bound)
	if again := l.adopt("a", "10.0.0.192/26", ledger.Bound); again != first {
		t.Errorf("adopt: %v", again)
	}
	l.wantBlocks("10.0.0.0/26 [a] retained", "10.0.0.80/28 [excluded] bound", "10.0.0.128/28 [draining] bound")
	must.Fail(l.Recovery().Adopt(t.Context(), exactly(request("p", "x", 0), "10.0.1.0/26"), ledger.Bound))(t, ledger.ErrOutOfRange)
	must.Fail(l.Recovery().Adopt(t.Context(), request("p", "x", 26), ledger.Bound))(t, ledger.ErrInvalid)
}

func TestDispute_SamePrefix(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	other := l.open()
	l.bind(request("p", "a", 26))
	b := l.adopt("b", "10.0.0.0/26", ledger.Retained)
	if b.State != ledger.Disputed || b.Holder.Claim != "b" {
		t.Errorf("adopt: %v", b)
	}
	l.adopt("c", "10.0.0.0/26", ledger.Bound)
	l.wantBlocks("10.0.0.0/26 [a b c] disputed")
	for _, claim := range []ledger.ClaimID{"a", "b", "c"} {
		got, ok, err := other.Lookup(t.Context(), claim)
		if err != nil || !ok || got.State != ledger.Disputed || got.Holder.Claim != claim {
			t.Errorf("Lookup = %v, %v, %v; want Disputed", got, ok, err)
		}
	}
	if blocks := listed(t, other, ListOptions{Pool: "p"}); len(blocks) != 3 {
		t.Errorf("List of p = %v; want one block for each of three holders", blocks)
	}
	must.Do(t, l.Retained().SetPolicy(t.Context(), "b", ledger.Retain))
	must.Be(t, l.ReleaseFor(t.Context(), b, ledger.CauseReleased), ledger.ErrChanged)
	l.free("a")
	l.wantBlocks("10.0.0.0/26 [b c] disputed")
	l.gets(request("p", "d", 25), "10.0.0.128/25")
	l.free("d")
	l.free("c")
	l.wantBlocks("10.0.0.0/26 [b] retained")
	if got, _, _ := l.Lookup(t.Context(), "b"); got.Policy != ledger.Retain {
		t.Errorf("Lookup: %v", got)
	}
	l.free("b")
	l.sameAsLedger(other)
	l.bind(request("p", "d", 24))
}

func TestDispute_Nested(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.bind(exactly(request("p", "a", 0), "10.0.0.0/26"))
	l.bind(exactly(request("p", "b", 0), "10.0.0.128/26"))
	l.adopt("half", "10.0.0.0/25", ledger.Bound)
	l.wantBlocks("10.0.0.0/25 [half] disputed", "10.0.0.0/26 [a] disputed", "10.0.0.128/26 [b] bound")
	l.adopt("all", "10.0.0.0/24", ledger.Bound)
	l.adopt("host", "10.0.0.1/32", ledger.Bound)
	l.wantBlocks("10.0.0.0/24 [all] disputed", "10.0.0.0/25 [half] disputed", "10.0.0.0/26 [a] disputed",
		"10.0.0.1/32 [host] disputed", "10.0.0.128/26 [b] disputed")
	l.sameAsLedger(l.open())
	l.free("all")
	l.wantBlocks("10.0.0.0/25 [half] disputed", "10.0.0.0/26 [a] disputed",
		"10.0.0.1/32 [host] disputed", "10.0.0.128/26 [b] bound")
	l.free("half")
	l.free("a")
	l.wantBlocks("10.0.0.1/32 [host] bound", "10.0.0.128/26 [b] bound")
	l.gets(request("p", "c", 26), "10.0.0.64/26")
}

// A prefix is adopted over more blocks than a transaction carries: in several. When its
// holder goes, none of them is in dispute any longer.
func TestDispute_OverManyBlocks(t *testing.T) {
	for name, limits := range map[string]struct{ etcd, configured int }{"as configured": {16, 16}, "fewer than configured": {16, 2048}} {
		t.Run(name, func(t *testing.T) {
			const many = 60
			e := etcdtest.NewWith(t, embedetcd.Options{MaxTxnOps: limits.etcd})
			l := &fixture{t: t, etcd: e}
			l.Allocator = l.open(func(o *Options) { o.MaxTxnOps = limits.configured })
			l.pool("p", "10.0.0.0/24")
			for i := range many {
				l.bind(request("p", fmt.Sprint("small", i), 32))
			}
			l.bind(exactly(request("p", "beside", 0), "10.0.0.128/32"))
			states := func(want ledger.BlockState) {
				t.Helper()
				for i := range many {
					b, ok, err := l.Lookup(t.Context(), ledger.ClaimID(fmt.Sprint("small", i)))
					if err != nil || !ok || b.State != want {
						t.Fatalf("block %d is %v, %t, %v; want it %s", i, b, ok, err, want)
					}
				}
			}
			if b := l.adopt("large", "10.0.0.0/25", ledger.Bound); b.State != ledger.Disputed {
				t.Errorf("the adopted block is %s; want it disputed", b.State)
			}
			states(ledger.Disputed)
			must.Do(t, l.Healthy())
			l.sameAsLedger()
			l.free("large")
			states(ledger.Bound)
			if b, _, err := l.Lookup(t.Context(), "beside"); err != nil || b.State != ledger.Bound {
				t.Errorf("the block beside is %v, %v; want it bound", b, err)
			}
			l.sameAsLedger()
		})
	}
}

// A request that no etcd takes is invalid, and no sign that the ledger is ill.
func TestBind_TooLargeForEtcd(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	r := request("p", "large", 28)
	r.Class = strings.Repeat("x", 8<<20)
	must.Fail(l.Bind(t.Context(), r))(t, ledger.ErrInvalid)
	must.Do(t, l.Healthy())
	l.bind(request("p", "c", 28))
}

// A block stays in dispute if another that overlaps it comes while its last rival is released.
func TestDispute_RefusesANewNeighbour(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	came := false
	kv := &writtenKV{l.etcd.Client().KV, "/head", func() {
		if !came {
			came = true
			l.adopt("third", "10.0.0.0/29", ledger.Bound)
		}
	}}
	l.bind(exactly(request("p", "first", 0), "10.0.0.0/28"))
	l.adopt("around", "10.0.0.0/27", ledger.Bound)
	busy := &fixture{Allocator: l.through(kv, l.etcd.Client().Watcher), t: t, etcd: l.etcd}
	busy.free("around")
	if b, ok, err := busy.Lookup(t.Context(), "first"); err != nil || !ok || b.State != ledger.Disputed || !came {
		t.Errorf("Lookup = %s, %t, %v; want it disputed, as another has come: %t", b.State, ok, err, came)
	}
	l.sameAsLedger(busy.Allocator)
}

// A block that others change while a neighbour is released or adopted keeps that change, even where as many blocks as
// before are there.
func TestDispute_RefusesAChangedNeighbour(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*fixture)
		op     func(*fixture)
		want   []string
	}{
		"a rival comes, and a neighbour is released": {
			func(l *fixture) { l.adopt("rival", "10.0.0.0/28", ledger.Bound) },
			func(busy *fixture) { busy.free("around") },
			[]string{"10.0.0.0/28 [first rival] disputed"},
		},
		"a block is retained, and a neighbour is adopted": {
			func(l *fixture) {
				l.free("around")
				l.adopt("another", "10.0.0.16/28", ledger.Retained)
			},
			func(busy *fixture) { busy.adopt("all", "10.0.0.0/26", ledger.Bound) },
			[]string{"10.0.0.0/26 [all] disputed", "10.0.0.0/28 [first] disputed", "10.0.0.16/28 [another] disputed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := withPool(t, "10.0.0.0/16")
			changed := false
			kv := &writtenKV{l.etcd.Client().KV, "/head", func() {
				if !changed {
					changed = true
					tt.change(l)
				}
			}}
			l.bind(exactly(request("p", "first", 0), "10.0.0.0/28"))
			l.adopt("around", "10.0.0.0/27", ledger.Bound)
			busy := &fixture{Allocator: l.through(kv, l.etcd.Client().Watcher), t: t, etcd: l.etcd}
			tt.op(busy)
			var got []string
			for _, b := range busy.sameAsLedger(l.Allocator) {
				got = append(got, fmt.Sprint(b.Prefix, " ", b.Claims, " ", b.State))
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) || !changed {
				t.Errorf("the ledger has %v, want %v, as the change has come: %t", got, tt.want, changed)
			}
		})
	}
}

// One record too large for a transaction is a part by itself: etcd refuses it, and nothing panics.
func TestFirstPart_HasOneRecordAtLeast(t *testing.T) {
	large := store.Record{Prefix: netip.MustParsePrefix("10.0.0.0/24")}
	for i := range 8_000 {
		large.Holdings = append(large.Holdings, store.Holding{Pool: "p", Claim: ledger.ClaimID(fmt.Sprint("claim-", i)), Cluster: "root", Namespace: "default", Name: strings.Repeat("n", 60)})
	}
	if got := firstPart([]store.Record{large, large}, 128); len(got) != 1 {
		t.Errorf("got %d records, want 1", len(got))
	}
}

// writtenKV has others write whenever a key was read that ends so.
type writtenKV struct {
	clientv3.KV
	key   string
	write func()
}

func (kv *writtenKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := kv.KV.Get(ctx, key, opts...)
	if strings.HasSuffix(key, kv.key) {
		kv.write()
	}
	return resp, err
}

// A block in dispute is released, and one is adopted beside others, though others write the space after each look.
func TestDispute_EndsInABusySpace(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	bound := 0
	kv := &writtenKV{l.etcd.Client().KV, "/head", func() {
		bound++
		l.bind(exactly(request("p", fmt.Sprint("busy", bound), 0), fmt.Sprintf("10.0.128.%d/32", bound)))
	}}
	busy := &fixture{Allocator: l.through(kv, l.etcd.Client().Watcher), t: t, etcd: l.etcd}
	busy.bind(exactly(request("p", "first", 0), "10.0.0.0/28"))
	busy.adopt("second", "10.0.0.0/28", ledger.Bound)
	busy.adopt("around", "10.0.0.0/27", ledger.Bound)
	busy.free("around")
	busy.free("first")
	if b, ok, err := busy.Lookup(t.Context(), "second"); err != nil || !ok || b.State != ledger.Bound {
		t.Errorf("Lookup of the last holder = %s, %t, %v; want it bound", b.State, ok, err)
	}
	if bound == 0 {
		t.Error("nobody has written the space meanwhile")
	}
	l.sameAsLedger(busy.Allocator)
}
