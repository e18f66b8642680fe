package index_test

import (
	"net/netip"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/index"
)

var cidr = netip.MustParsePrefix

func cidrs(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = cidr(s)
	}
	return out
}

// holding is an index of a window in which the prefixes are held.
func holding(window string, held ...string) *index.Index {
	x := index.New(cidr(window))
	for _, p := range cidrs(held...) {
		x.Take(p)
	}
	return x
}

// wantFree checks that these are the free blocks.
func wantFree(t *testing.T, x *index.Index, want ...string) {
	t.Helper()
	var lengths index.Histogram
	for _, p := range cidrs(want...) {
		if lengths[p.Bits()]++; !x.Free(p) {
			t.Errorf("%v is not free", p)
		}
	}
	if got := x.Histogram(); got != lengths {
		t.Errorf("free blocks by length %v, want those of %v", got, want)
	}
	if err := x.Check(); err != nil {
		t.Errorf("Check: %v", err)
	}
}

func TestFind_FollowsTheStrategy(t *testing.T) {
	v4 := []string{"10.0.0.0/27", "10.0.0.144/28"} // free: .32/27 .64/26 .128/28 .160/27 .192/26
	v6 := []string{"2001:db8::/64", "2001:db8:0:8000::/64"}
	for _, tt := range []struct {
		name     string
		window   string
		held     []string
		length   int
		strategy index.Strategy
		want     string // empty: nothing
	}{
		{"first fit", "10.0.0.0/24", v4, 28, index.FirstFit, "10.0.0.32/28"},
		{"first fit passes what is too small", "10.0.0.0/24", v4, 26, index.FirstFit, "10.0.0.64/26"},
		{"best fit", "10.0.0.0/24", v4, 28, index.BestFit, "10.0.0.128/28"},
		{"best fit, lowest of equals", "10.0.0.0/24", v4, 27, index.BestFit, "10.0.0.32/27"},
		{"least utilized, lowest of equals", "10.0.0.0/24", v4, 28, index.LeastUtilized, "10.0.0.64/28"},
		{"too large", "10.0.0.0/24", v4, 25, index.FirstFit, ""},
		{"too large for the largest", "10.0.0.0/24", v4, 25, index.LeastUtilized, ""},
		{"unknown strategy", "10.0.0.0/24", v4, 28, index.Strategy(9), "10.0.0.32/28"},
		{"empty window", "10.0.0.0/24", nil, 24, index.BestFit, "10.0.0.0/24"},
		{"empty window of all", "0.0.0.0/0", nil, 0, index.LeastUtilized, "0.0.0.0/0"},
		{"full window", "10.0.0.0/31", []string{"10.0.0.0/32", "10.0.0.1/32"}, 32, index.FirstFit, ""},
		{"larger than the window", "10.0.0.0/24", nil, 23, index.FirstFit, ""},
		{"longer than the family", "10.0.0.0/24", nil, 33, index.FirstFit, ""},
		{"negative", "10.0.0.0/24", nil, -1, index.FirstFit, ""},
		{"host beside a held half", "::/0", []string{"::/1"}, 128, index.FirstFit, "8000::/128"},
		{"v6 first fit", "2001:db8::/32", v6, 48, index.FirstFit, "2001:db8:1::/48"},
		{"v6 best fit", "2001:db8::/32", v6, 64, index.BestFit, "2001:db8:0:1::/64"},
		{"v6 least utilized", "2001:db8::/32", v6, 64, index.LeastUtilized, "2001:db8:8000::/64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := holding(tt.window, tt.held...).Find(tt.length, tt.strategy)
			if ok != (tt.want != "") || ok && got != cidr(tt.want) {
				t.Errorf("got %v, %t, want %q", got, ok, tt.want)
			}
		})
	}
}

func TestFind_AllocatesNothing(t *testing.T) {
	for i, x := range []*index.Index{
		holding("10.0.0.0/8", "10.0.0.0/32", "10.77.1.9/32"),
		holding("::/0", "::1/128", "2001:db8::/64"),
	} {
		if n := testing.AllocsPerRun(100, func() {
			for _, s := range all {
				x.Find(30, s)
			}
		}); n != 0 {
			t.Errorf("index %d: %v allocations, want 0", i, n)
		}
	}
}

func TestTake_HoldsNestedAndRepeatedPrefixes(t *testing.T) {
	x := holding("10.0.0.0/28", "10.0.0.0/30", "10.0.0.0/29", "10.0.0.0/30")
	wantFree(t, x, "10.0.0.8/29")
	if got := x.Overlapping(cidr("10.0.0.0/30")); got != 3 || x.Blocks() != 3 {
		t.Errorf("%d blocks overlap the smaller one, of %d, want 3 of 3", got, x.Blocks())
	}
	x.Put(cidr("10.0.0.0/29"))
	wantFree(t, x, "10.0.0.4/30", "10.0.0.8/29")
	x.Put(cidr("10.0.0.0/30"))
	wantFree(t, x, "10.0.0.4/30", "10.0.0.8/29")
	x.Put(cidr("10.0.0.0/30"))
	wantFree(t, x, "10.0.0.0/28")
}

func TestExclude_LeavesHeldBlocks(t *testing.T) {
	x := holding("10.0.0.0/28", "10.0.0.0/32", "10.0.0.8/29")
	x.Exclude(cidr("10.0.0.0/30"))
	x.Exclude(cidr("10.0.0.0/30"))
	x.Exclude(cidr("10.0.0.12/30"))
	wantFree(t, x, "10.0.0.4/30")
	if x.Blocks() != 2 {
		t.Errorf("%d blocks", x.Blocks())
	}
	if !x.Include(cidr("10.0.0.0/30")) || x.Include(cidr("10.0.0.0/30")) || x.Include(cidr("10.0.0.8/29")) {
		t.Error("only what is excluded can be included, once")
	}
	wantFree(t, x, "10.0.0.1/32", "10.0.0.2/31", "10.0.0.4/30")
	x.Put(cidr("10.0.0.8/29"))
	wantFree(t, x, "10.0.0.1/32", "10.0.0.2/31", "10.0.0.4/30", "10.0.0.8/30")
}

func TestIndex_IgnoresForeignPrefixesAndHostBits(t *testing.T) {
	x := holding("10.0.0.0/24")
	for _, p := range []netip.Prefix{
		{}, cidr("2001:db8::/64"), cidr("::ffff:10.0.0.0/120"), cidr("10.0.1.0/24"),
		netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), 33),
	} {
		x.Take(p)
		x.Exclude(p)
		if x.Free(p) || x.Put(p) || x.Include(p) {
			t.Errorf("%v is not of the window, but something was done", p)
		}
	}
	wantFree(t, x, "10.0.0.0/24")

	x.Take(cidr("10.0.0.99/25")) // host bits do not count
	x.Exclude(cidr("10.0.0.255/26"))
	wantFree(t, x, "10.0.0.128/26")
	if x.Free(cidr("10.0.0.129/25")) || !x.Put(cidr("10.0.0.1/25")) || !x.Include(cidr("10.0.0.193/26")) {
		t.Error("host bits count")
	}
	wantFree(t, index.New(cidr("10.0.0.7/24")), "10.0.0.0/24")
}

func TestIndex_HoldsNothingWithoutAWindow(t *testing.T) {
	for _, x := range []*index.Index{{}, index.New(netip.Prefix{})} {
		for _, p := range cidrs("0.0.0.0/0", "::/0", "10.0.0.0/24") {
			x.Take(p)
			x.Exclude(p)
			if x.Free(p) || x.Put(p) || x.Include(p) {
				t.Errorf("%v can be used", p)
			}
		}
		_, found := x.Find(0, index.FirstFit)
		_, largest := x.Largest()
		if found || largest || x.Blocks() != 0 || x.Available().Sign() != 0 || x.Total().Sign() != 0 {
			t.Error("there is something")
		}
		wantFree(t, x)
	}
}
