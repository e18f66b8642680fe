package allocator

import (
	"context"
	"fmt"
	"log/slog"
	"math/big"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// crowd is an Allocator with a pool in which claims wait.
type crowd struct {
	*Allocator
	woken atomic.Int64
	all   chan struct{} // closed when all were woken
	one   chan struct{} // closed when one was woken
}

const waiters = 20_000

// newCrowd makes the claims of some workspaces wait for addresses of a pool that has none free.
func newCrowd(b *testing.B, workspaces int, ask func(*ledger.Request, int)) *crowd {
	b.Helper()
	server, err := embedetcd.Start(b.Context(), embedetcd.Options{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatalf("Start: %v", err)
	}
	b.Cleanup(func() { _ = server.Close() })
	c := &crowd{all: make(chan struct{}), one: make(chan struct{})}
	c.Allocator, err = Open(b.Context(), server.Client(), Options{HoldTime: time.Hour, Wake: func(ledger.Holder) {
		switch c.woken.Add(1) {
		case 1:
			close(c.one)
		case waiters:
			close(c.all)
		}
	}})
	if err != nil {
		b.Fatalf("Open: %v", err)
	}
	b.Cleanup(func() { _ = c.Close() })
	p := root("p", "10.0.0.0/8")
	p.Excluded = []netip.Prefix{prefix("10.128.0.0/9")}
	must.Get(c.Pools().Register(b.Context(), p))(b)
	for claim, half := range map[string]string{"goes": "10.0.0.0/10", "stays": "10.64.0.0/10"} { // all that is not excluded
		r := request("p", claim, 0)
		r.Exact, r.Holder.Cluster = prefix(half), "w0"
		must.Get(c.Bind(b.Context(), r))(b)
	}
	before := heap()
	for i := range waiters {
		r := request("p", fmt.Sprintf("0f0a1f6e-4d4b-4c7c-9d51-%012d", i), 32)
		r.Holder.Cluster = ledger.ClusterName(fmt.Sprint("w", i%workspaces))
		ask(&r, i)
		c.Waits().Add(r)
	}
	b.ReportMetric(float64(heap()-before)/waiters, "B/claim")
	return c
}

// heap returns how much memory is in use.
func heap() uint64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&now)
	return now.HeapAlloc
}

// wakesOne measures the time from the release of one address until a claim is woken.
func (c *crowd) wakesOne(b *testing.B) {
	b.Helper()
	var but []netip.Prefix // all of 10.128.0.0/9 but its first address
	for bits := 10; bits <= 32; bits++ {
		but = append(but, netip.PrefixFrom(netip.AddrFrom4(oneBit(bits)), bits))
	}
	slices.SortFunc(but, ledger.ComparePrefixes)
	began := time.Now()
	must.Do(b, c.Pools().Exclude(b.Context(), "p", but))
	select {
	case <-c.one:
	case <-time.After(time.Minute):
		b.Fatal("no claim was woken in a minute")
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "ms/one")
}

// oneBit returns the address 10.128.0.0 with one more bit set: the last bit of a prefix of the given length.
func oneBit(bits int) [4]byte {
	addr := [4]byte{10, 128}
	addr[(bits-1)/8] |= 1 << (7 - (bits-1)%8)
	return addr
}

// wakes measures the time from the call of makeRoom until the last waiting claim is woken.
func (c *crowd) wakes(b *testing.B, makeRoom func(context.Context) error) {
	b.Helper()
	runtime.GC() // the preparation has left garbage
	began, spent := time.Now(), processor(b)
	must.Do(b, makeRoom(b.Context()))
	select {
	case <-c.all:
	case <-time.After(time.Minute):
		b.Fatalf("%d of %d claims were woken in a minute", c.woken.Load(), waiters)
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "ms/20000")
	b.ReportMetric(float64((processor(b)-spent).Microseconds())/1000, "cpu-ms/20000")
}

// processor returns how much processor time this process has used, with the etcd that is embedded in it.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkWake measures how 20,000 waiting claims are woken, when one transaction makes room for all of them. The
// figure includes that transaction.
func BenchmarkWake(b *testing.B) {
	for _, workspaces := range []int{1, waiters} {
		b.Run(fmt.Sprintf("room/workspaces=%d", workspaces), func(b *testing.B) {
			for b.Loop() {
				c := newCrowd(b, workspaces, func(*ledger.Request, int) {})
				c.wakes(b, func(ctx context.Context) error { return c.Pools().Exclude(ctx, "p", nil) })
			}
		})
	}
	for _, workspaces := range []int{1, waiters} {
		b.Run(fmt.Sprintf("one/workspaces=%d", workspaces), func(b *testing.B) {
			for b.Loop() {
				newCrowd(b, workspaces, func(*ledger.Request, int) {}).wakesOne(b)
			}
		})
	}
	b.Run("exact", func(b *testing.B) {
		for b.Loop() {
			c := newCrowd(b, 1, func(r *ledger.Request, i int) {
				i = i * 7919 % waiters // not in the order of their age
				r.Exact = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128 + byte(i>>16), byte(i >> 8), byte(i)}), 32)
			})
			c.wakes(b, func(ctx context.Context) error { return c.Pools().Exclude(ctx, "p", nil) })
		}
	})
	b.Run("quota", func(b *testing.B) {
		for b.Loop() {
			c := newCrowd(b, 1, func(r *ledger.Request, _ int) {
				r.Limits = ledger.Limits{Pool: big.NewInt(1<<22 + waiters)}
			})
			c.wakes(b, func(ctx context.Context) error { return c.Release(ctx, "goes") })
		}
	})
}
