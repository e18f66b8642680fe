package golden_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/golden"
	"github.com/kcp-ipam/ipam/allocator/index"
)

var cidr = netip.MustParsePrefix

func TestFreeBlocks(t *testing.T) {
	x := golden.New(cidr("10.0.0.0/24"))
	x.Take(cidr("10.0.0.0/28"))
	x.Exclude(cidr("10.0.0.64/26"))

	want := []netip.Prefix{cidr("10.0.0.16/28"), cidr("10.0.0.32/27"), cidr("10.0.0.128/25")}
	if got := slices.Collect(x.FreeBlocks()); !slices.Equal(got, want) {
		t.Errorf("free blocks %v, want %v", got, want)
	}
	if got := x.Available().Int64(); got != 16+32+128 {
		t.Errorf("available %d", got)
	}
	if length, ok := x.Largest(); !ok || length != 25 {
		t.Errorf("largest %d, %t", length, ok)
	}
}

func TestFind(t *testing.T) {
	x := golden.New(cidr("10.0.0.0/24"))
	x.Take(cidr("10.0.0.0/27"))
	x.Take(cidr("10.0.0.144/28"))

	for s, want := range map[index.Strategy]string{
		index.FirstFit:      "10.0.0.32/28",
		index.BestFit:       "10.0.0.128/28",
		index.LeastUtilized: "10.0.0.64/28",
	} {
		if got, ok := x.Find(28, s); !ok || got != cidr(want) {
			t.Errorf("%v: %v, %t, want %s", s, got, ok, want)
		}
	}
	if got, ok := x.Find(25, index.FirstFit); ok {
		t.Errorf("found %v, though no /25 is free", got)
	}
}

func TestMarks(t *testing.T) {
	x := golden.New(cidr("10.0.0.0/24"))
	p := cidr("10.0.0.0/25")
	x.Take(p)
	x.Take(p)
	x.Take(cidr("10.1.0.0/25"))
	x.Exclude(p)
	x.Exclude(p)

	if x.Blocks() != 2 || !x.Include(p) || x.Include(p) {
		t.Error("held twice, excluded once")
	}
	if !x.Put(p) || x.Free(p) || !x.Put(p) || x.Put(p) || !x.Free(p) {
		t.Error("two puts free it, not one, not three")
	}
}
