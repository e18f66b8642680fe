package allocator

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// bench is an etcd with fsync, as in production, and an Allocator on it.
type bench struct {
	*Allocator
	client *clientv3.Client
	maxOps int
	claims atomic.Int64
}

func newBench(b *testing.B, maxOps int) *bench {
	b.Helper()
	server, err := embedetcd.Start(b.Context(), embedetcd.Options{Dir: b.TempDir(), MaxTxnOps: maxOps, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatalf("Start: %v", err)
	}
	b.Cleanup(func() { _ = server.Close() })
	a, err := Open(b.Context(), server.Client(), Options{MaxTxnOps: maxOps})
	if err != nil {
		b.Fatalf("Open: %v", err)
	}
	b.Cleanup(func() { _ = a.Close() })
	if _, err := a.Pools().Register(b.Context(), root("p", "10.0.0.0/8")); err != nil {
		b.Fatalf("Register: %v", err)
	}
	return &bench{Allocator: a, client: server.Client(), maxOps: maxOps}
}

// spread runs f n times from some callers.
func spread(n, callers int, f func()) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				f()
			}
		})
	}
	wg.Wait()
}

func (b *bench) next() ledger.Request {
	return request("p", fmt.Sprintf("0f0a1f6e-4d4b-4c7c-9d51-%012d", b.claims.Add(1)), 32)
}

// raw commits the transaction of a group of n binds, and nothing else.
func (b *bench) raw(tb testing.TB, n int) {
	head := fmt.Sprint("/raw/", b.claims.Add(1))
	ifs, then, els := store.Cmps(store.At(head, 0)), store.Ops(store.Put(head, store.EncodeHead(1, ""))), store.Ops(store.Get(head))
	for range n {
		req := b.next()
		var addr [4]byte
		binary.BigEndian.PutUint32(addr[:], uint32(b.claims.Load()))
		p, value := netip.PrefixFrom(netip.AddrFrom4(addr), 32), newBind(wanted{Request: req}, wanted{Request: req}.holding(b.engine.Hooks.Now())).value
		claim := b.keys.Claim(req.Holder.Claim)
		ifs = append(ifs, store.Absent("/raw"+claim))
		els = append(els, store.Get("/raw"+claim))
		then = append(then,
			store.Put("/raw"+b.keys.Space("p").Block(p), value),
			store.Put("/raw"+claim, store.EncodeClaim("p", p)))
	}
	if _, err := b.client.Txn(context.Background()).If(ifs...).Then(then...).Else(els...).Commit(); err != nil {
		tb.Errorf("etcd transaction: %v", err)
	}
}

// BenchmarkBind measures binds on one hot pool against raw transactions of the
// same content. raw-1 is one bind a transaction from each caller; raw-group is
// as many in one as there are callers, or fit, from one caller.
func BenchmarkBind(b *testing.B) {
	for _, maxOps := range []int{128, 2048} {
		for _, callers := range []int{1, 8, 64, 256} {
			group := min(callers, (maxOps-2)/2)
			b.Run(fmt.Sprintf("ops=%d/callers=%d/bind", maxOps, callers), func(b *testing.B) {
				l := newBench(b, maxOps)
				b.ResetTimer()
				spread(b.N, callers, func() {
					if _, err := l.Bind(context.Background(), l.next()); err != nil {
						b.Errorf("Bind: %v", err)
					}
				})
				report(b, b.N)
			})
			b.Run(fmt.Sprintf("ops=%d/callers=%d/raw-1", maxOps, callers), func(b *testing.B) {
				l := newBench(b, maxOps)
				b.ResetTimer()
				spread(b.N, callers, func() { l.raw(b, 1) })
				report(b, b.N)
			})
			b.Run(fmt.Sprintf("ops=%d/callers=%d/raw-group", maxOps, callers), func(b *testing.B) {
				l := newBench(b, maxOps)
				b.ResetTimer()
				spread((b.N+group-1)/group, 1, func() { l.raw(b, group) })
				report(b, b.N)
			})
		}
	}
}

func report(b *testing.B, n int) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "allocations/s")
}
