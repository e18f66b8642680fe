package index_test

import (
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
	name   string
	window netip.Prefix
	length int
}{
	{"IPv4", cidr("10.0.0.0/8"), 32},
	{"IPv6", cidr("2001:db8::/32"), 64},
}

var fills = []int{0, 10_000, 1_000_000}

// scattered are n different prefixes of that length, spread without order over
// the first 24 bits below the window: the worst case for size and speed.
func scattered(window netip.Prefix, length, n int) []netip.Prefix {
	const mask = 1<<24 - 1
	out := make([]netip.Prefix, n)
	for i := range out {
		place := uint32(i) * 0x9E3779 & mask // this and the next line: each place once
		place = (place ^ place>>13) * 0xC2B2AF & mask
		place ^= place >> 11
		b := window.Addr().AsSlice()
		first := b[window.Bits()/8:]
		first[0], first[1], first[2] = byte(place>>16), byte(place>>8), byte(place)
		addr, _ := netip.AddrFromSlice(b)
		out[i] = netip.PrefixFrom(addr, length)
	}
	return out
}

func filled(window netip.Prefix, with []netip.Prefix) *index.Index {
	x := index.New(window)
	takeAll(x, with)
	return x
}

func forPools(b *testing.B, run func(b *testing.B, window netip.Prefix, length, fill int)) {
	for _, pool := range pools {
		for _, fill := range fills {
			b.Run(fmt.Sprintf("%s/blocks=%d", pool.name, fill), func(b *testing.B) {
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
		x, more := filledBut(b, window, length, fill)
		for b.Loop() {
			takeAll(x, more)
			b.StopTimer()
			putAll(x, more)
			b.StartTimer()
		}
		reportEach(b, len(more))
	})
}

func BenchmarkPut(b *testing.B) {
	forPools(b, func(b *testing.B, window netip.Prefix, length, fill int) {
		x, more := filledBut(b, window, length, fill)
		for b.Loop() {
			b.StopTimer()
			takeAll(x, more)
			b.StartTimer()
			putAll(x, more)
		}
		reportEach(b, len(more))
	})
}

// filledBut is a filled index and a batch of prefixes that it does not hold, but
// held once, so that the arena has room for them.
func filledBut(b *testing.B, window netip.Prefix, length, fill int) (*index.Index, []netip.Prefix) {
	const batch = 8192
	b.ReportAllocs()
	prefixes := scattered(window, length, fill+batch)
	x := filled(window, prefixes)
	putAll(x, prefixes[fill:])
	return x, prefixes[fill:]
}

// reportEach reports the time of one of the batch that every loop is about.
func reportEach(b *testing.B, batch int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/op")
}

func takeAll(x *index.Index, prefixes []netip.Prefix) {
	for _, p := range prefixes {
		x.Take(p)
	}
}

func putAll(x *index.Index, prefixes []netip.Prefix) {
	for _, p := range prefixes {
		x.Put(p)
	}
}

// BenchmarkFill binds a million blocks, one after the other, in an empty pool.
func BenchmarkFill(b *testing.B) {
	const blocks = 1_000_000
	for _, pool := range pools {
		for _, s := range all {
			b.Run(pool.name+"/"+s.String(), func(b *testing.B) {
				for b.Loop() {
					x := index.New(pool.window)
					for range blocks {
						p, _ := x.Find(pool.length, s)
						x.Take(p)
					}
				}
				reportEach(b, blocks)
			})
		}
	}
}

// BenchmarkOpen fills an index, as opening a ledger does, and weighs it.
func BenchmarkOpen(b *testing.B) {
	const blocks = 1_000_000
	for _, pool := range pools {
		b.Run(pool.name, func(b *testing.B) {
			prefixes := scattered(pool.window, pool.length, blocks)
			var before, after uint64
			for range b.N {
				b.StopTimer()
				before = heap()
				b.StartTimer()
				x := filled(pool.window, prefixes)
				b.StopTimer()
				after = heap()
				runtime.KeepAlive(x)
			}
			b.ReportMetric(float64(after-before)/blocks, "B/block")
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
