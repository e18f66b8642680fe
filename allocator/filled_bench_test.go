package allocator

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// fill writes blocks of consecutive addresses straight into the ledger, as
// binds would have.
func (b *bench) fill(tb testing.TB, pool ledger.PoolID, from, to int) {
	tb.Helper()
	for from < to {
		var puts []clientv3.Op
		for ; from < to && len(puts) < b.maxOps-2; from++ {
			puts = append(puts, b.block(pool, from)...)
		}
		if _, err := b.client.Txn(context.Background()).Then(puts...).Commit(); err != nil {
			tb.Fatalf("etcd transaction: %v", err)
		}
	}
}

func (b *bench) block(pool ledger.PoolID, i int) []clientv3.Op {
	req := request(pool, fmt.Sprintf("11111111-4d4b-4c7c-9d51-%012d", i), 32)
	addr := prefix("10.0.0.0/8").Addr().As4()
	addr[1], addr[2], addr[3] = byte(i>>16), byte(i>>8), byte(i)
	p := netip.PrefixFrom(netip.AddrFrom4(addr), 32)
	return store.Ops(
		store.Put(b.keys.Space(ledger.SpaceID(pool)).Block(p), newBind(wanted{Request: req}, wanted{Request: req}.holding(b.engine.Hooks.Now())).value),
		store.Put(b.keys.Claim(req.Holder.Claim), store.EncodeClaim(ledger.SpaceID(pool), p)),
	)
}

// BenchmarkBind_Filled measures one bind after the other in pools that hold more
// and more, each followed by a raw transaction of the same content.
func BenchmarkBind_Filled(b *testing.B) {
	for _, held := range []int{0, 10_000, 100_000} {
		b.Run(fmt.Sprint(held), func(b *testing.B) {
			l := newBench(b, 2048)
			l.fill(b, "p", 0, held)
			var bind, raw time.Duration
			for b.Loop() {
				started := time.Now()
				if _, err := l.Bind(b.Context(), l.next()); err != nil {
					b.Fatalf("Bind: %v", err)
				}
				bound := time.Now()
				l.raw(b, 1)
				bind, raw = bind+bound.Sub(started), raw+time.Since(bound)
			}
			b.ReportMetric(bind.Seconds()/raw.Seconds(), "bind/raw")
			b.ReportMetric(float64(bind.Microseconds())/float64(b.N), "µs/bind")
		})
	}
}

// BenchmarkOpen reads a ledger of a million blocks in one pool.
func BenchmarkOpen(b *testing.B) {
	const blocks = 1_000_000
	l := newBench(b, 2048)
	l.fill(b, "p", 0, blocks)
	b.ResetTimer()
	for b.Loop() {
		before := heapSize()
		started := time.Now()
		a, err := Open(b.Context(), l.store.Client, Options{})
		if err != nil {
			b.Fatalf("Open: %v", err)
		}
		b.ReportMetric(time.Since(started).Seconds(), "s")
		b.ReportMetric(float64(heapSize()-before)/blocks, "B/block")
		_ = a.Close()
	}
}

func heapSize() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
