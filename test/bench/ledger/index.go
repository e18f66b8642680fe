package ledger

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/index"
)

// indexAlone is the index without a ledger, full and nearly empty.
func indexAlone(_ context.Context, opts *options, out io.Writer) error {
	testing.Init()
	if err := flag.Set("test.benchtime", "50ms"); err != nil {
		return err
	}
	t := newTable("pool", "what", "ns", "allocations", "ns at 1,000 blocks", "÷ that")
	for _, f := range families {
		few, many := newForest(f, 1000), newForest(f, opts.blocks)
		for _, deed := range deeds {
			var ns, base figures
			allocations := int64(0)
			for range min(opts.rounds, 5) {
				full, low := testing.Benchmark(deed.run(many)), testing.Benchmark(deed.run(few))
				ns, base = append(ns, perOp(full)), append(base, perOp(low))
				allocations = max(allocations, full.AllocsPerOp())
			}
			t.row(fmt.Sprintf("%s %s", count(opts.blocks), f.name), deed.name, ns.write("%.0f"), fmt.Sprint(allocations), base.write("%.0f"), ns.over(base).write("%.2f"))
		}
	}
	fmt.Fprintf(out, "### The index alone\n\n%s\nThe blocks are scattered; a step finds room, takes it, and puts back a block picked at random.\n\n", t)
	return nil
}

func perOp(r testing.BenchmarkResult) float64 { return float64(r.T.Nanoseconds()) / float64(r.N) }

// forest is an index and what it holds.
type forest struct {
	*index.Index
	family family
	held   []netip.Prefix
	random *rand.Rand
}

// newForest holds blocks that are scattered over twice the room they need.
func newForest(f family, blocks int) *forest {
	x := &forest{Index: index.New(f.window), family: f, random: rand.New(rand.NewPCG(1, 2))}
	for range 2 * blocks {
		p, _ := x.Find(f.length, index.FirstFit)
		x.Take(p)
		x.held = append(x.held, p)
	}
	x.random.Shuffle(len(x.held), func(i, j int) { x.held[i], x.held[j] = x.held[j], x.held[i] })
	for _, p := range x.held[blocks:] {
		x.Put(p)
	}
	x.held = x.held[:blocks]
	return x
}

type deed struct {
	name string
	run  func(*forest) func(*testing.B)
}

// deeds are what is measured of the index.
var deeds = []deed{
	find(index.FirstFit), find(index.BestFit), find(index.LeastUtilized),
	step(index.FirstFit), step(index.BestFit), step(index.LeastUtilized),
	{"Put and Take", func(x *forest) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p := x.held[x.random.IntN(len(x.held))]
				x.Put(p)
				x.Take(p)
			}
		}
	}},
}

func find(s index.Strategy) deed {
	return deed{"Find " + s.String(), func(x *forest) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x.Find(x.family.length, s)
			}
		}
	}}
}

func step(s index.Strategy) deed {
	return deed{"Find, Take, Put " + s.String(), func(x *forest) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, _ := x.Find(x.family.length, s)
				x.Take(p)
				i := x.random.IntN(len(x.held))
				x.Put(x.held[i])
				x.held[i] = p
			}
		}
	}}
}
