package index_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/index"
)

// The pools that the benchmarks fill: hosts of an IPv4 /8, and /64s of an IPv6
// /32.
var pools = []struct {
	window netip.Prefix
	length int
}{
	{cidr("10.0.0.0/8"), 32},
	{cidr("2001:db8::/32"), 64},
}

var fills = []int{0, 10_000, 1_000_000}

// scattered are n different prefixes of that length in a window with at least 24
// bits of room, in an order that jumps about: the worst case for size and speed.
func scattered(window netip.Prefix, length, n int) []netip.Prefix {
	const room = 24
	out := make([]netip.Prefix, n)
	for i := range out {
		place := uint32(i) * 0x9E3779 & (1<<room - 1) // odd, so each comes once
		b := window.Addr().AsSlice()
		if len(b) == 4 {
			binary.BigEndian.PutUint32(b, binary.BigEndian.Uint32(b)|place)
		} else {
			binary.BigEndian.PutUint32(b[4:], place<<8)
		}
		addr, _ := netip.AddrFromSlice(b)
		out[i] = netip.PrefixFrom(addr, length)
	}
	return out
}

func filled(window netip.Prefix, with []netip.Prefix) *index.Index {
	x := index.New(window)
	for _, p := range with {
		x.Take(p)
	}
	return x
}

func forPools(b *testing.B, run func(b *testing.B, window netip.Prefix, length, fill int)) {
	for _, pool := range pools {
		for _, fill := range fills {
			b.Run(fmt.Sprintf("window=%v/blocks=%d", pool.window, fill), func(b *testing.B) {
				run(b, pool.window, pool.length, fill)
			})
		}
	}
}

func BenchmarkFind(b *testing.B) {
	forPools(b, func(b *testing.B, window netip.Prefix, length, fill int) {
		x := filled(window, scattered(window, length, fill))
		for _, s := range all {
			b.Run(s.String(), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					x.Find(length, s)
				}
			})
		}
	})
}

// BenchmarkBind is a pool in steady use: find room by the strategy, take it, and
// give back a block picked at random.
func BenchmarkBind(b *testing.B) {
	forPools(b, func(b *testing.B, window netip.Prefix, length, fill int) {
		for _, s := range all {
			held := scattered(window, length, max(fill, 1))
			x := filled(window, held)
			random := rand.New(rand.NewPCG(1, 2))
			b.Run(s.String(), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					p, _ := x.Find(length, s)
					x.Take(p)
					i := random.IntN(len(held))
					x.Put(held[i])
					held[i] = p
				}
			})
		}
	})
}

func BenchmarkTake(b *testing.B) {
	forPools(b, func(b *testing.B, window netip.Prefix, length, fill int) {
		timeBatches(b, window, length, fill, func(x *index.Index, p netip.Prefix) { x.Take(p) }, nil)
	})
}

func BenchmarkPut(b *testing.B) {
	forPools(b, func(b *testing.B, window netip.Prefix, length, fill int) {
		timeBatches(b, window, length, fill, nil, func(x *index.Index, p netip.Prefix) { x.Put(p) })
	})
}

// timeBatches takes and puts blocks beside those that fill the index, and times
// the one of take and put that is given.
func timeBatches(b *testing.B, window netip.Prefix, length, fill int, take, put func(*index.Index, netip.Prefix)) {
	const batch = 8192
	prefixes := scattered(window, length, fill+batch)
	x := filled(window, prefixes[:fill])
	b.ReportAllocs()
	for done := 0; done < b.N; done += batch {
		now := prefixes[fill:][:min(batch, b.N-done)]
		timed(b, x, now, take, (*index.Index).Take)
		timed(b, x, now, put, func(x *index.Index, p netip.Prefix) { x.Put(p) })
	}
}

func timed(b *testing.B, x *index.Index, prefixes []netip.Prefix, do, untimed func(*index.Index, netip.Prefix)) {
	if do == nil {
		b.StopTimer()
		defer b.StartTimer()
		do = untimed
	}
	for _, p := range prefixes {
		do(x, p)
	}
}

func BenchmarkOpen(b *testing.B) {
	const blocks = 1_000_000
	for _, pool := range pools {
		b.Run(fmt.Sprintf("window=%v", pool.window), func(b *testing.B) {
			prefixes := scattered(pool.window, pool.length, blocks)
			var x *index.Index
			for b.Loop() {
				before := heap()
				x = filled(pool.window, prefixes)
				b.ReportMetric(float64(heap()-before)/blocks, "B/block")
				runtime.KeepAlive(x)
				x = nil
			}
		})
	}
}

// heap is the number of bytes in live objects.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
